import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.gpu.absent import GpuAbsent
from schemas.gpu import Gpu
from schemas.job import Maintenance
from tests.detectors.timelines import assert_cuts_change_nothing, cutting, presence, rows, run, said


def slots(*sending, node="n1"):
    """One list of flags a slot: whether it has a row in that second."""
    return [
        {"time": t, "node": node, "gpu": slot}
        for slot, flags in enumerate(sending)
        for t, sends in enumerate(flags)
        if sends
    ]


def judge(given_rows, ends, *plans):
    tables = {Gpu: rows(Gpu, *given_rows), Maintenance: rows(Maintenance, *plans)}
    return run(GpuAbsent(), tables, ends)[0]


def on(*runs):
    return [index % 2 == 0 for index, length in enumerate(runs) for _ in range(length)]


def test_a_slot_that_vanishes_while_its_node_goes_on_pages_after_five_seconds():
    found = judge(slots(on(10, 20), on(30)), 30)
    assert said(found, "cause", "entity", "active") == [(14.0, "gpu_fallen_off_bus", "n1/0", True)]
    assert found["first_bad_at"].item().second == 10


def test_where_slots_are_read_every_ten_seconds_three_of_them_are_missed():
    slow = [
        {"time": 10 * number, "node": "n1", "gpu": slot}
        for number in range(13) for slot in (0, 1) if slot or number < 6
    ]  # fmt: skip
    tables = {Gpu: rows(Gpu, *slow), Maintenance: rows(Maintenance)}
    found = run(GpuAbsent(), tables, 125, intervals_seconds={"gpu": 10.0})[0]
    # The last row is that of 50 s, and a row may be a quarter of an interval late.
    assert said(found, "entity", "active") == [(82.5, "n1/0", True)]


def test_a_node_that_falls_silent_as_a_whole_lost_no_gpu():
    assert judge(slots(on(10, 20), on(10, 20)), 30).is_empty()


def test_slots_read_one_after_another_end_together():
    late = [{**row, "time": row["time"] + 0.9} for row in slots(on(10), on(10)) if row["gpu"] == 1]
    assert judge([*slots(on(10)), *late], 30).is_empty()


def test_a_slot_that_comes_back_ends_the_level():
    found = judge(slots(on(10, 20, 5), on(35)), 35)
    assert said(found, "active") == [(14.0, True), (30.0, False)]


def test_a_slot_that_skips_a_few_scrapes_is_not_absent():
    assert judge(slots(on(10, 4, 10), on(24)), 24).is_empty()


def test_a_slot_that_does_not_come_back_with_its_node_is_absent():
    found = judge(slots(on(10, 30), on(10, 10, 20)), 40)
    assert said(found, "entity") == [(25.0, "n1/0")]


def test_slots_that_come_back_seconds_after_each_other_are_not_absent():
    assert judge(slots(on(10, 13, 17), on(10, 10, 20)), 40).is_empty()


@pytest.mark.parametrize(("kind", "entity"), [("gpu", "n1/0"), ("node", "n1"), ("pdu", "pdu-0"), ("superblock", "sb0")])
def test_maintenance_is_not_a_loss(kind, entity):
    plan = {"starts_at": 8, "ends_at": 25, "kind": kind, "id": entity}
    assert judge(slots(on(10, 20), on(30)), 30, plan).is_empty()


def test_maintenance_of_a_neighbour_excuses_nothing():
    plan = {"starts_at": 8, "ends_at": 25, "kind": "gpu", "id": "n1/1"}
    assert judge(slots(on(10, 20), on(30)), 30, plan).height == 1


def test_a_node_that_no_topology_knows_is_judged_too():
    assert said(judge(slots(on(10, 20), on(30), node="stranger"), 30), "entity") == [(14.0, "stranger/0")]


@settings(max_examples=25, deadline=None)
@given(
    sending=st.lists(presence(40), min_size=1, max_size=3),
    offset=st.sampled_from([0.0, 0.25, 0.9]),
    window=st.none() | st.tuples(st.integers(0, 40), st.integers(1, 20)),
    cuts=cutting(50),
)
def test_no_cut_changes_anything(sending, offset, window, cuts):
    shifted = [{**row, "time": row["time"] + offset * row["gpu"]} for row in slots(*sending)]
    plans = [{"starts_at": window[0], "ends_at": sum(window), "kind": "node", "id": "n1"}] if window else []
    tables = {Gpu: rows(Gpu, *shifted), Maintenance: rows(Maintenance, *plans)}
    assert_cuts_change_nothing(GpuAbsent(), tables, 50, cuts)
