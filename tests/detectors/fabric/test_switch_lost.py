from datetime import timedelta

import polars as pl
import pytest

from detectors.fabric.switch_lost import SwitchLost
from schemas.fabric import FabricPort
from schemas.job import Maintenance
from schemas.topology import topology_from_frames
from tests.detectors.fabric.fabric_timelines import at, judge_tables, maintenance, port, statements, table_of
from tests.detectors.timelines import run

# leaf-0 and leaf-1, each with four hosts (one HCA) below it and two links to each of spine-0 and spine-1.
DOWN = [(f"n{n}/hca0", 1, f"leaf-{n // 4}", 1 + n % 4) for n in range(8)]
UP = [
    (f"leaf-{leaf}", 10 + 2 * spine + twin, f"spine-{spine}", 1 + 2 * leaf + twin)
    for leaf in (0, 1) for spine in (0, 1) for twin in (0, 1)
]  # fmt: skip
LINKS = [*DOWN, *UP]
TOPOLOGY = topology_from_frames(
    "two leaves", pl.DataFrame({"node": [f"n{n}" for n in range(8)]}),
    pl.DataFrame(LINKS, schema=["a", "a_port", "b", "b_port"], orient="row").with_row_index("n").select(
        pl.format("c{}", "n").alias("cable"), "a", "a_port", "b", "b_port"
    ),
)  # fmt: skip
ENDS = sorted({(a, a_port) for a, a_port, _, _ in LINKS} | {(b, b_port) for _, _, b, b_port in LINKS})
FAR = {(a, ap): (b, bp) for a, ap, b, bp in LINKS} | {(b, bp): (a, ap) for a, ap, b, bp in LINKS}
FROM, STEP = 120, 30


def fabric(down=(), silent=(), *, seconds=300, back=10**6):
    """Every end each 30 s, devices a second apart; from FROM on, links of the `down` devices are down."""
    rows = []
    for device_number, device in enumerate(sorted({device for device, _ in ENDS})):
        for begin in range(0, seconds, STEP):
            second, gone = begin + device_number, FROM <= begin < back
            for end in (end for end in ENDS if end[0] == device and not (gone and device in silent)):
                dead = gone and (device in down or FAR[end][0] in down)
                rows.append(port(second, end, "down" if dead else "active"))
    return rows


def judged(rows, planned=()):
    return judge_tables(SwitchLost(), {FabricPort: rows, Maintenance: list(planned)}, TOPOLOGY)


def test_a_switch_whose_neighbours_all_lost_it_and_that_is_silent_is_one_finding():
    findings = judged(fabric(down={"leaf-0"}, silent={"leaf-0"}))
    assert [(entity, active) for _, entity, active in statements(findings)] == [("leaf-0", True)]
    assert findings.select("cause", "kind", "code", "severity").row(0) == ("switch_lost", "switch", "silent", "page")
    # Its own last words are older than those of its neighbours, who have all spoken 13 s after FROM.
    assert statements(findings)[0][0] <= FROM + 13
    assert findings["first_bad_at"][0] == at(FROM + 2)  # n0, the first to see it


def test_a_switch_that_still_talks_and_says_that_all_its_ports_are_down():
    findings = judged(fabric(down={"leaf-0"}))
    assert [(entity, active) for _, entity, active in statements(findings)] == [("leaf-0", True)]
    assert findings["code"].to_list() == ["ports_down"]


def test_a_switch_whose_words_only_stop_is_not_lost():
    assert judged(fabric(silent={"leaf-0"})).is_empty()


def test_a_leaf_whose_hosts_are_all_gone_is_not_lost():
    hosts = {f"n{n}/hca0" for n in range(4)}
    assert judged(fabric(down=hosts, silent=hosts)).is_empty()


def test_half_of_a_switch_is_not_the_switch():
    rows = fabric(down={"n0/hca0", "n1/hca0", "spine-0"}, silent={"spine-0"})
    assert [entity for _, entity, _ in statements(judged(rows))] == ["spine-0"]


def test_hosts_that_are_off_since_long_do_not_hide_it():
    rows = [row for row in fabric(down={"leaf-0"}, silent={"leaf-0"}) if not row["device"].startswith(("n0/", "n1/"))]
    assert [entity for _, entity, _ in statements(judged(rows))] == ["leaf-0"]


def test_the_words_of_a_quarter_of_its_links_are_too_few():
    rows = [row for row in fabric(down={"leaf-0"}, silent={"leaf-0"}) if row["device"].startswith(("n0/", "n1/"))]
    assert judged(rows).is_empty()


def test_it_ends_when_its_links_are_up_again():
    findings = judged(fabric(down={"leaf-0"}, silent={"leaf-0"}, back=210))
    assert [active for _, _, active in statements(findings)] == [True, False]


@pytest.mark.parametrize("kind", ["switch", "link"])
def test_a_switch_in_maintenance_was_meant_to_be_down(kind):
    findings = judged(fabric(down={"leaf-0"}), [maintenance(kind, "leaf-0", FROM - 10, FROM + 3600)])
    assert findings.is_empty() == (kind == "switch")


def test_maintenance_told_in_an_earlier_batch_is_remembered():
    tables = {FabricPort: table_of(FabricPort, fabric(down={"leaf-0"}))}
    assert run(SwitchLost(), tables, 300, (FROM - 5,), TOPOLOGY)[0].height == 1
    plan = table_of(Maintenance, [maintenance("switch", "leaf-0", FROM - 10, FROM + 3600)])
    assert run(SwitchLost(), {**tables, Maintenance: plan}, 300, (FROM - 5,), TOPOLOGY)[0].is_empty()


def test_links_to_a_single_device_prove_nothing_about_the_switch():
    pair = topology_from_frames(
        "one pair", pl.DataFrame({"node": ["n0"]}),
        pl.DataFrame(
            {"cable": ["x", "y"], "a": ["leaf-0"] * 2, "a_port": [1, 2], "b": ["spine-0"] * 2, "b_port": [1, 2]}
        ),
    )  # fmt: skip
    rows = [
        port(30 * n, (device, number), "down")
        for n in range(8)
        for device in ("leaf-0", "spine-0")
        for number in (1, 2)
    ]
    assert judge_tables(SwitchLost(), {FabricPort: rows, Maintenance: []}, pair).is_empty()


def test_an_old_dead_link_does_not_date_the_loss():
    old = {("leaf-0", 1), ("n0/hca0", 1)}
    rows = [
        row | {"state": "down"} if (row["device"], row["port"]) in old else row
        for row in fabric(down={"leaf-0"}, silent={"leaf-0"})
    ]
    onset = judged(rows)["first_bad_at"][0]
    assert onset - at(FROM) < timedelta(seconds=STEP)
    assert onset >= at(FROM)
