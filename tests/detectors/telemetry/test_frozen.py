import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.telemetry.frozen import FrozenTelemetry
from schemas.coolant import CoolantPump
from schemas.fabric import FabricPort
from schemas.gpu import Gpu
from tests.detectors.timelines import assert_cuts_change_nothing, cutting, rows, run, said


def gpu(node, seconds, watts, slot=0):
    """Rows each second; watts: second -> value."""
    return [{"time": second, "node": node, "gpu": slot, "power_watts": watts(second)} for second in seconds]


def stands(since, until=10**9):
    return lambda second: 600.0 + (since if since <= second < until else second) % 97


def moves(second):
    return 600.0 + second % 89


def judge(*given_rows, detector=None, ends=300):
    return run(detector or FrozenTelemetry(), {Gpu: rows(Gpu, *given_rows)}, ends)[0]


def test_values_that_stand_for_a_minute_while_peers_move_are_frozen():
    found = judge(*gpu("n1", range(300), stands(100)), *gpu("n2", range(300), moves))
    assert said(found, "cause", "kind", "entity", "severity", "active") == [
        (160.0, "telemetry_frozen", "source", "gpu:n1", "ticket", True)
    ]
    assert found["first_bad_at"].item().minute * 60 + found["first_bad_at"].item().second == 101


def test_the_first_value_that_moves_ends_it():
    found = judge(*gpu("n1", range(300), stands(100, 200)), *gpu("n2", range(300), moves))
    assert said(found, "active") == [(160.0, True), (200.0, False)]


def test_a_longer_limit_speaks_later():
    slow = FrozenTelemetry(frozen_seconds=90)
    found = judge(*gpu("n1", range(300), stands(100)), *gpu("n2", range(300), moves), detector=slow)
    assert said(found, "active") == [(190.0, True)]


def test_one_gpu_that_moves_keeps_its_host_alive():
    given_rows = (*gpu("n1", range(300), stands(100)), *gpu("n1", range(300), moves, slot=1))
    assert judge(*given_rows, *gpu("n2", range(300), moves)).is_empty()


def test_when_all_stand_still_at_once_no_exporter_is_to_blame():
    assert judge(*(row for node in ("n1", "n2", "n3") for row in gpu(node, range(300), stands(100)))).is_empty()


def test_a_source_that_never_moved_is_constant_by_nature():
    assert judge(*gpu("n1", range(300), lambda _: 600.0), *gpu("n2", range(300), moves)).is_empty()


def test_coarse_numbers_that_move_every_ten_seconds_have_two_hundred():
    def coarse(second):
        return 600.0 + min(second, 300) // 10

    found = judge(*gpu("n1", range(700), coarse), *gpu("n2", range(700), moves), ends=700)
    assert said(found, "active") == [(500.0, True)]


def test_settings_and_states_that_change_do_not_make_values_move():
    frozen = [{**row, "pcie_width": row["time"] % 16 + 1} for row in gpu("n1", range(300), stands(100))]
    assert judge(*frozen, *gpu("n2", range(300), moves)).height == 1


def test_a_source_that_is_silent_is_not_frozen():
    assert judge(*gpu("n1", range(100), moves), *gpu("n2", range(300), moves)).is_empty()


def test_a_pump_that_stands_says_zero_and_is_not_frozen():
    def pump(cdu, second, rpm):
        return {"time": second, "cdu": cdu, "pump": "pump-1", "speed_rpm": rpm, "power_watts": rpm / 10}

    given_rows = [pump("cdu-0", s, 2850.0 + s % 7 if s < 100 else 0.0) for s in range(300)]
    given_rows += [pump("cdu-1", s, 2850.0 + s % 5) for s in range(300)]
    assert run(FrozenTelemetry(), {CoolantPump: rows(CoolantPump, *given_rows)}, 300)[0].is_empty()


@pytest.mark.parametrize(("device", "found"), [("leaf-001", 1), ("n1/hca0", 0)])
def test_a_switch_may_be_frozen_and_an_idle_hca_is_not(device, found):
    given_rows = [
        {"time": 30 * k, "device": name, "port": 1, "transmit_bytes_total": min(k, top)}
        for k in range(40)
        for name, top in ((device, 15), ("leaf-002", 99), ("leaf-003", 99))
    ]
    # Ports are read every 30 s: 20 usual gaps of 30 s.
    assert run(FrozenTelemetry(), {FabricPort: rows(FabricPort, *given_rows)}, 1200)[0].height == found


def test_ports_that_are_read_one_after_another_have_four_intervals():
    # Fifteen ports, one every 2 s, each every 30 s. The last that moves is that of 478 s.
    given_rows = [
        {"time": 30 * k + 2 * port, "device": name, "port": port, "transmit_bytes_total": min(k, top)}
        for k in range(24)
        for port in range(15)
        for name, top in (("leaf-001", 15), ("leaf-002", 99))
    ]
    found = run(FrozenTelemetry(), {FabricPort: rows(FabricPort, *given_rows)}, 720)[0]
    assert said(found, "entity", "active") == [(598.0, "fabric_port:leaf-001", True)]


@pytest.mark.parametrize(("changes", "found"), [(9, 0), (10, 1)])
def test_what_a_source_usually_does_is_known_after_ten_changes(changes, found):
    given_rows = (*gpu("n1", range(120), stands(changes)), *gpu("n2", range(120), moves))
    assert judge(*given_rows, ends=120).height == found


def test_one_of_four_that_goes_on_does_not_accuse_the_others():
    still = [row for node in ("n1", "n2", "n3", "n4") for row in gpu(node, range(300), stands(100))]
    assert judge(*still, *gpu("n5", range(300), moves)).is_empty()


@settings(deadline=None, max_examples=25)
@given(cuts=cutting(300), since=st.integers(20, 150), until=st.integers(150, 280))
def test_cuts_change_nothing(cuts, since, until):
    frozen, well = gpu("n1", range(300), stands(since, until)), gpu("n2", range(300), moves)
    assert_cuts_change_nothing(FrozenTelemetry(), {Gpu: rows(Gpu, *frozen, *well)}, 300, cuts)
