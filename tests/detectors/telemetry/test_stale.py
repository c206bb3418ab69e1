import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.telemetry.stale import StaleTelemetry
from schemas.coolant import CoolantLoop
from schemas.fabric import FabricPort
from schemas.gpu import Gpu
from schemas.job import Heartbeat, Maintenance
from schemas.power import Power
from tests.detectors.timelines import assert_cuts_change_nothing, cutting, presence, rows, run, said


def gpu(node, *seconds, slot=0):
    return [{"time": second, "node": node, "gpu": slot} for second in seconds]


def judge(tables, ends):
    return run(StaleTelemetry(), tables, ends)[0]


def test_a_source_is_stale_a_minute_after_its_last_row():
    found = judge({Gpu: rows(Gpu, *gpu("n1", 0, 1, 2), *gpu("n2", *range(100)))}, 100)
    assert said(found, "cause", "kind", "entity", "severity", "active") == [
        (62.0, "telemetry_stale", "source", "gpu:n1", "ticket", True)
    ]
    assert found["first_bad_at"].item().second == 3


def test_a_slow_table_has_four_of_its_intervals():
    # Ports are read every 30 s: stale after 120 s, not after 60.
    ports = rows(FabricPort, {"time": 0, "device": "leaf-000", "port": 1})
    assert said(judge({FabricPort: ports}, 200), "entity") == [(120.0, "fabric_port:leaf-000")]


def test_the_next_row_ends_it_even_within_one_batch():
    found = judge({Gpu: rows(Gpu, *gpu("n1", 0, 100, 101, 200))}, 210)
    assert said(found, "active") == [(60.0, True), (100.0, False), (161.0, True), (200.0, False)]


def test_a_row_at_the_very_deadline_is_in_time():
    assert judge({Gpu: rows(Gpu, *gpu("n1", 0, 60, 120))}, 130).is_empty()


def test_one_slot_of_a_node_that_vanishes_does_not_make_the_node_stale():
    given_rows = [*gpu("n1", 0, 1), *gpu("n1", *range(100), slot=1)]
    assert judge({Gpu: rows(Gpu, *given_rows)}, 100).is_empty()


def test_each_table_of_a_host_is_a_source_of_its_own():
    tables = {
        CoolantLoop: rows(CoolantLoop, {"time": 0, "cdu": "cdu-00"}),
        Power: rows(Power, {"time": 0, "pdu": "pdu-000"}),
    }
    assert sorted(judge(tables, 100)["entity"]) == ["coolant_loop:cdu-00", "power:pdu-000"]


def test_many_hosts_silent_at_once_are_an_outage_and_a_page_when_it_blinds_a_quarter():
    def severities(silent, others):
        sends = [*(f"s{n}" for n in range(silent)), *(f"o{n}" for n in range(others))]
        given_rows = [row for n in sends for row in gpu(n, *(range(10) if n.startswith("s") else range(0, 100, 10)))]
        found = judge({Gpu: rows(Gpu, *given_rows)}, 100)
        return found.group_by("code", "severity").len().sort("code", "severity").rows()

    assert severities(7, 0) == [("silent", "ticket", 7)]
    assert severities(8, 40) == [("outage", "ticket", 8)]
    assert severities(10, 40) == [("outage", "ticket", 10)]
    assert severities(10, 10) == [("outage", "page", 10)]


@pytest.mark.parametrize(("apart", "outage"), [(1, True), (3, False)])
def test_an_outage_is_what_falls_silent_within_ten_seconds(apart, outage):
    fallen = [row for host in range(10) for row in gpu(f"s{host}", *range(11 + apart * host))]
    others = [row for host in range(40) for row in gpu(f"o{host}", *range(0, 120, 10))]
    assert ("outage" in judge({Gpu: rows(Gpu, *fallen, *others)}, 120)["code"]) == outage


def test_ranks_that_stop_beating_are_not_stale_telemetry():
    assert Heartbeat not in StaleTelemetry().reads


@pytest.mark.parametrize(("kind", "entity"), [("node", "n1"), ("pdu", "pdu-0"), ("superblock", "sb0")])
def test_maintenance_is_not_staleness(kind, entity):
    plans = rows(Maintenance, {"starts_at": 1, "ends_at": 50, "kind": kind, "id": entity})
    assert judge({Gpu: rows(Gpu, *gpu("n1", 0)), Maintenance: plans}, 200).is_empty()


def test_a_source_silent_again_after_maintenance_is_stale():
    plans = rows(Maintenance, {"starts_at": 1, "ends_at": 50, "kind": "node", "id": "n1"})
    found = judge({Gpu: rows(Gpu, *gpu("n1", 0, 90)), Maintenance: plans}, 200)
    assert said(found, "active") == [(150.0, True)]


def test_state_is_one_row_a_source():
    state = run(StaleTelemetry(), {Gpu: rows(Gpu, *gpu("n1", *range(100)), *gpu("n2", *range(100)))}, 100)[1]
    assert sorted(state["source"]) == ["n1", "n2"]


@settings(max_examples=20, deadline=None)
@given(
    sending=st.lists(presence(30), min_size=1, max_size=3),
    window=st.none() | st.tuples(st.integers(0, 30), st.integers(1, 10)),
    cuts=cutting(36),
)
def test_no_cut_changes_anything(sending, window, cuts):
    given_rows = [
        {"time": second + 0.3 * number, "node": f"n{number}", "gpu": 0}
        for number, flags in enumerate(sending)
        for second, sends in enumerate(flags)
        if sends
    ]
    plans = [{"starts_at": window[0], "ends_at": sum(window), "kind": "node", "id": "n0"}] if window else []
    tables = {Gpu: rows(Gpu, *given_rows), Maintenance: rows(Maintenance, *plans)}
    assert_cuts_change_nothing(StaleTelemetry(silence_seconds=2.5, silence_intervals=2), tables, 36, cuts)
