"""Recordings in order of arrival: what has come by when is what their rows say, and the end is judged too."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from pipelines.cli.replay import fired
from pipelines.cli.session import replayed
from pipelines.settings import Settings
from pipelines.sources.choose import recording_source
from schemas.incident import Incident

BEGAN = datetime(2026, 5, 1, 23, 58, tzinfo=UTC)
NODES = 8
ONE_MINUTE = timedelta(seconds=60)
XID = "NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus."


def beats(seconds: int, *, every: int = 1, lost: tuple[int, ...] = (), lost_at: int = 10**6) -> list[dict[str, object]]:
    return [
        {
            "time": BEGAN + timedelta(seconds=second, milliseconds=10 * node), "node": f"n{node}", "gpu": gpu,
            "job": "j", "rank": 8 * node + gpu, "step": second // 5,
        }
        for second in range(0, seconds, every)
        for node in range(NODES)
        for gpu in range(8)
        if not (node in lost and second >= lost_at)
    ]  # fmt: skip


def incidents(folder: Path, **tables: list[dict[str, object]]) -> list[Incident]:
    folder.mkdir()
    nodes = {"node": [f"n{node}" for node in range(NODES)], "pdu": [f"p{node // 4}" for node in range(NODES)]}
    pl.DataFrame(nodes).write_csv(folder / "nodes.csv")
    for name, rows in tables.items():
        pl.DataFrame(rows).write_parquet(folder / f"{name}.parquet")
    return fired(replayed(recording_source(folder), Settings()))


def late_by(rows: list[dict[str, object]], seconds: float) -> list[dict[str, object]]:
    return [row | {"arrived_at": row["time"] + timedelta(seconds=seconds)} for row in rows]  # type: ignore[operator]  # a time


@pytest.mark.parametrize("seconds", [0.0, 3.0, 20.0])
def test_a_delay_that_all_rows_share_is_no_silence(tmp_path: Path, seconds: float) -> None:
    assert incidents(tmp_path / "r", heartbeat=late_by(beats(120), seconds)) == []


def test_a_lost_node_is_found_among_seldom_beats(tmp_path: Path) -> None:
    rows = late_by(beats(400, every=10, lost=(3,), lost_at=120), 0.2)
    [found] = incidents(tmp_path / "r", heartbeat=rows)
    assert (found.cause, found.roots, len(found.members)) == ("node_lost", ("n3",), 8)


def test_most_nodes_lost_at_once_are_still_found(tmp_path: Path) -> None:
    rows = late_by(beats(200, lost=(2, 3, 4, 5, 6, 7), lost_at=100), 0.2)
    found = incidents(tmp_path / "r", heartbeat=rows)
    assert {gpu.partition("/")[0] for one in found for gpu in one.members} == {"n2", "n3", "n4", "n5", "n6", "n7"}


def test_events_alone_are_judged_to_the_last(tmp_path: Path) -> None:
    event = {"time": BEGAN + timedelta(seconds=50), "node": "n1", "gpu": 4, "kind": "xid", "code": 79, "message": XID}
    [found] = incidents(tmp_path / "r", gpu_event=late_by([event], 0.2))
    assert (found.cause, found.roots) == ("gpu_fallen_off_bus", ("n1/4",))


def test_ranks_of_a_node_need_not_arrive_in_order_of_time(tmp_path: Path) -> None:
    rows = beats(90)
    shaken = [row | {"time": row["time"] + timedelta(milliseconds=(37 * row["rank"]) % 200)} for row in rows]  # type: ignore[operator]  # a time and a rank
    arrived = [row | {"arrived_at": BEGAN + timedelta(seconds=1 + number // 64)} for number, row in enumerate(shaken)]
    tally_folder = tmp_path / "r"
    assert incidents(tally_folder, heartbeat=arrived) == []


def host_rows(seconds: int, *, slow: float = 0.0, late: float | None = None) -> dict[str, list[dict[str, object]]]:
    """Beats and GPU rows; n3's clock is `slow`, or (where given) its rows come `late`."""
    shift = timedelta(seconds=slow)
    gpus = [
        {"time": beat["time"], "node": beat["node"], "gpu": beat["gpu"], "power_watts": 600.0 + number % 7}
        for number, beat in enumerate(beats(seconds))
    ]
    tables = {}
    for name, given in (("heartbeat", beats(seconds)), ("gpu", gpus)):
        rows = [row | ({"time": row["time"] - shift} if row["node"] == "n3" else {}) for row in given]  # type: ignore[operator]  # a time
        if late is not None:
            rows = [row for one in rows for row in late_by([one], late if one["node"] == "n3" else 0.2)]
        tables[name] = sorted(rows, key=lambda row: str(row["time"]))
    return tables


@pytest.mark.parametrize("slow", [30.0, -30.0])
def test_a_host_whose_clock_is_off_is_not_lost_where_nobody_knows_when_its_rows_came(
    tmp_path: Path, slow: float
) -> None:
    assert incidents(tmp_path / "r", **host_rows(150, slow=slow)) == []


@pytest.mark.parametrize(("slow", "late", "code"), [(0.0, 20.0, "slow"), (30.0, 30.2, "slow"), (-30.0, -29.8, "fast")])
def test_a_host_whose_clock_or_way_is_off_is_not_lost_and_a_ticket(
    tmp_path: Path, slow: float, late: float, code: str
) -> None:
    [found] = incidents(tmp_path / "r", **host_rows(150, slow=slow, late=late))
    assert (found.cause, found.severity, found.roots) == ("clock_skew", "ticket", ("gpu:n3", "heartbeat:n3"))
    assert {seen["code"] for seen in found.evidence} == {code}


def test_a_host_that_is_late_and_then_lost_is_found(tmp_path: Path) -> None:
    late = [
        row for one in beats(200, lost=(3,), lost_at=100) for row in late_by([one], 20 if one["node"] == "n3" else 0.2)
    ]
    found = {one.cause: one.roots for one in incidents(tmp_path / "r", heartbeat=late)}
    assert found == {"clock_skew": ("heartbeat:n3",), "node_lost": ("n3",)}


def test_the_share_of_a_collector_is_one_incident_of_telemetry(tmp_path: Path) -> None:
    tables = {
        name: [row for row in rows if row["node"] not in {"n2", "n3", "n4", "n5"} or row["time"] < BEGAN + ONE_MINUTE]  # type: ignore[operator]  # a time
        for name, rows in host_rows(140).items()
    }
    [found] = incidents(tmp_path / "r", **tables)
    assert (found.cause, found.roots) == ("telemetry_stale", ("gpu:n2", "gpu:n3", "gpu:n4", "gpu:n5"))
