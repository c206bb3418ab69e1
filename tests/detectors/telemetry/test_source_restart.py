import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.telemetry.source_restart import SourceRestart
from schemas.fabric import FabricPort
from schemas.gpu import Gpu
from tests.detectors.timelines import assert_cuts_change_nothing, cutting, rows, run, said


def gpus(restarts, *, ends=600, slots=8, node="n1", begin=5e9, every=10):
    """Energy of a host's GPUs at 700 W. restarts: {second from which they count anew: slots}."""
    found = []
    for second in range(0, ends, every):
        for slot in range(slots):
            mine = [at for at, those in restarts.items() if at <= second and slot in those]
            energy = 700.0 * (second - max(mine)) if mine else begin + 700.0 * second
            found.append({"time": second, "node": node, "gpu": slot, "energy_joules_total": energy})
    return found


def judge(*given_rows, ends=600, schema=Gpu, detector=None):
    return run(detector or SourceRestart(), {schema: rows(schema, *given_rows)}, ends)[0]


ALL = range(8)


def test_all_energy_counters_of_a_host_near_zero_at_once_are_a_restart_and_a_note():
    found = judge(*gpus({100: ALL}))
    assert said(found, "cause", "kind", "entity", "severity", "active", "action") == [
        (100.0, "source_restarted", "source", "gpu:n1", "info", True, None)
    ]
    seen = json.loads(found["evidence"][0])
    assert (seen["restarts"], seen["entities"], seen["counters"]) == (1, 8, 8)


def test_one_gpu_that_is_reset_is_not_its_host():
    assert judge(*gpus({100: [3]})).is_empty()
    assert judge(*gpus({100: range(4)})).is_empty()
    assert not judge(*gpus({100: range(4)}), detector=SourceRestart(source_share=0.5)).is_empty()


def test_a_gpu_that_is_reset_twice_within_half_a_minute_is_one_gpu():
    assert judge(*gpus({100: [0, 1], 120: [0, 1]}, slots=4)).is_empty()
    assert said(judge(*gpus({100: [0, 1], 120: [0, 2]}, slots=4)), "entity") == [(120.0, "gpu:n1")]


def test_a_reset_that_comes_again_is_remembered_from_when_it_came_last():
    found = judge(*gpus({100: [0, 1], 120: [0, 1], 140: [2]}, slots=4))
    assert said(found, "active") == [(140.0, True)]


def test_ports_that_are_read_one_after_another_restart_together_within_half_a_minute():
    assert said(judge(*gpus({100: range(3), 110: range(3, 6), 120: [6, 7]})), "active") == [(110.0, True)]
    assert judge(*gpus({100: range(3), 160: range(3, 6)})).is_empty()


def test_three_restarts_close_together_are_a_loop_and_a_ticket_until_none_has_come_for_a_quarter_of_an_hour():
    found = judge(*gpus({200: ALL, 1100: ALL, 1400: ALL, 1500: ALL}, ends=3000), ends=3000)
    assert said(found, "severity", "active", "action") == [
        (200.0, "info", True, None), (1400.0, "ticket", True, "open_ticket"), (2400.0, "ticket", False, None)
    ]  # fmt: skip


def test_a_loop_of_a_minute_is_seen_by_rows_that_come_a_quarter_of_it_late():
    since = range(15, 60, 10)
    counts = [(0, 5e9), *((restart + after, 700.0 * after) for restart in (195, 255, 315) for after in since)]
    seldom = [
        {"time": second, "node": "n1", "gpu": slot, "energy_joules_total": joules}
        for second, joules in counts
        for slot in ALL
    ]
    assert said(judge(*seldom, ends=400), "severity") == [(210.0, "info"), (330.0, "ticket")]
    strict = SourceRestart(near_zero_share=since[0] / since[-1] - 0.01)
    assert said(judge(*seldom, ends=400, detector=strict), "severity") == [(210.0, "info")]


def test_restarts_far_apart_stay_notes():
    found = judge(*gpus({200: ALL, 1110: ALL, 2020: ALL}, ends=2100), ends=2100)
    assert said(found, "severity", "active") == [
        (200.0, "info", True), (1100.0, "info", False), (1110.0, "info", True), (2010.0, "info", False),
        (2020.0, "info", True),
    ]  # fmt: skip


def port(second, values, number=1):
    """Bytes sent and received, ticks of waiting, corrected codewords."""
    sent, received, waits, corrected = values
    return {
        "time": second, "device": "leaf-001", "port": number, "transmit_bytes_total": sent,
        "receive_bytes_total": received, "transmit_wait_total": waits, "fec_corrected_total": corrected,
    }  # fmt: skip


@pytest.mark.parametrize(
    "after",
    [
        (5000, 3000, 10, 40_000_000_900),  # two counters of four, and three are needed
        (5000, 3_000_000_900, 4_000_000, 40_000_000_900),  # one counter
        (2_000_000_000, 2_000_000_000, 2_000_000, 30_000_000_000),  # all of them fell, to nothing like zero
    ],
)
def test_what_is_less_than_several_counters_near_zero_is_no_restart(after):
    before = (3_000_000_000, 3_000_000_000, 5, 40_000_000_000)
    assert judge(port(0, before), port(30, after), ends=60, schema=FabricPort).is_empty()


def test_one_counter_that_is_cleared_on_every_port_is_no_restart():
    before, after = (
        (3_000_000_000, 3_000_000_000, 5000, 40_000_000_000),
        (3_000_000_900, 3_000_000_900, 0, 40_000_000_900),
    )
    ports = [port(second, values, number) for number in range(4) for second, values in ((0, before), (30, after))]
    assert judge(*ports, ends=60, schema=FabricPort).is_empty()


def test_counters_that_wrap_together_are_no_restart():
    top = 2**32
    before, after = (top - 9, top - 5, top - 1, top - 100), (100, 20, 3, 70)
    assert judge(port(0, before), port(30, after), ends=60, schema=FabricPort).is_empty()
    assert not judge(port(0, [each // 2 for each in before]), port(30, after), ends=60, schema=FabricPort).is_empty()


def test_a_row_that_leaves_counters_out_does_not_hide_that_they_fell():
    before, after = (3_000_000_000, 3_000_000_000, 900, 4_000_000_000), (50, 20, 3, 70)
    found = judge(port(0, before), port(30, (None,) * 4), port(60, after), ends=90, schema=FabricPort)
    assert said(found, "entity") == [(60.0, "fabric_port:leaf-001")]


def test_counters_that_were_small_say_nothing():
    assert judge(port(0, (9, 8, 7, 6)), port(30, (0, 0, 0, 0)), ends=60, schema=FabricPort).is_empty()
    assert not judge(port(0, (20,) * 4), port(30, (0,) * 4), ends=60, schema=FabricPort).is_empty()


def test_a_driver_that_restarts_keeps_the_replays_that_hardware_counts():
    found = [{**row, "pcie_replay_total": 150} for row in gpus({100: ALL})]
    assert said(judge(*found), "active") == [(100.0, True)]
    assert judge(*found, detector=SourceRestart(entity_share=0.6)).is_empty()


@settings(deadline=None, max_examples=10)
@given(
    cuts=cutting(300),
    restarts=st.dictionaries(st.integers(1, 29).map(lambda k: 10 * k), st.lists(st.integers(0, 3)), max_size=5),
)
def test_cuts_change_nothing(cuts, restarts):
    detector = SourceRestart(apart_seconds=90.0, restarts_ticket=2)
    tables = {Gpu: rows(Gpu, *gpus(restarts, ends=300, slots=4))}
    assert_cuts_change_nothing(detector, tables, 300, cuts)
