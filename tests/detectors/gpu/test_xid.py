import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.gpu.xid import XidFault
from schemas.gpu import Gpu, GpuEvent
from tests.detectors.timelines import assert_cuts_change_nothing, cutting, rows, run, said

QUICK = XidFault(hold_seconds=10)


def event(time, code, *, gpu=3, kind="xid", **more):
    return {"time": time, "node": "n1", "gpu": gpu, "kind": kind, "code": code, **more}


def judge(*events, ends=60, detector=QUICK, cuts=()):
    return run(detector, {GpuEvent: rows(GpuEvent, *events)}, ends, cuts)[0]


@pytest.mark.parametrize(
    ("code", "cause", "action"),
    [
        (48, "gpu_memory", "reset_gpu"),
        (62, "gpu_fatal_error", "reset_gpu"),
        (64, "gpu_memory", "reset_gpu"),
        (74, "gpu_nvlink", "reset_gpu"),
        (79, "gpu_fallen_off_bus", "reboot_node"),
        (119, "gpu_fatal_error", "reset_gpu"),
        (120, "gpu_fatal_error", "reset_gpu"),
    ],
)
def test_the_codes_that_all_classifiers_call_faulty_page(code, cause, action):
    found = judge(event(5, code), ends=6)
    wanted = [(5.0, cause, "n1/3", f"xid {code}", "page", action, True)]
    assert said(found, "cause", "entity", "code", "severity", "action", "active") == wanted


@pytest.mark.parametrize("code", [13, 31, 43, 45, 63, 94, 999_999, None])
def test_application_noise_and_unknown_codes_are_only_observed(code):
    assert judge(event(5, code)).is_empty()


def test_a_switch_error_with_the_number_of_a_fatal_xid_is_not_one():
    assert judge(event(5, 79, kind="sxid")).is_empty()


def test_the_line_fallen_off_the_bus_is_xid_79():
    found = judge(event(5, None, kind="fallen_off_bus"), event(5.2, 79), ends=6)
    assert said(found, "cause", "code") == [(5.0, "gpu_fallen_off_bus", "xid 79")]


def test_a_level_ends_when_the_code_has_been_away_for_the_hold():
    found = judge(event(5, 62), event(12, 62))
    assert said(found, "active") == [(5.0, True), (22.0, False)]


def test_an_event_at_the_very_end_of_the_hold_keeps_the_level():
    assert said(judge(event(5, 62), event(15, 62)), "active") == [(5.0, True), (25.0, False)]


def test_an_event_after_the_hold_begins_a_new_level():
    found = judge(event(5, 62), event(15.001, 62), ends=16)
    assert said(found, "active") == [(5.0, True), (15.0, False), (15.001, True)]


def test_the_hold_is_an_hour():
    assert said(judge(event(5, 62), ends=4000, detector=XidFault()), "active") == [(5.0, True), (3605.0, False)]


def test_two_codes_on_one_gpu_are_two_levels():
    found = judge(event(5, 62), event(6, 48))
    assert sorted(said(found.filter("active"), "code")) == [(5.0, "xid 62"), (6.0, "xid 48")]


def test_without_a_slot_the_pci_address_names_the_gpu():
    assert said(judge(event(5, 62, gpu=None, pci="0000:1b:00"), ends=6), "entity") == [(5.0, "n1/0000:1b:00")]


def test_without_slot_and_address_the_node_is_still_named():
    assert said(judge(event(5, 62, gpu=None), ends=6), "entity") == [(5.0, "n1/unknown")]


@pytest.mark.parametrize(
    ("wanted", "action"),
    [
        ("GPU Reset Required", "reset_gpu"),
        ("Node Reboot Required", "reboot_node"),
        ("Drain and Reset", "drain_node"),
        ("Drain P2P", "drain_node"),
    ],
)
def test_what_the_driver_itself_asks_for_is_followed(wanted, action):
    found = judge(event(5, 154, recovery_action=wanted), ends=6)
    assert said(found, "cause", "code", "action") == [(5.0, "gpu_fatal_error", "xid 154", action)]


def test_an_undecoded_recovery_action_is_read_from_the_line():
    line = "Xid (PCI:0000:1b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
    assert said(judge(event(5, 154, message=line), ends=6), "action") == [(5.0, "reset_gpu")]


@pytest.mark.parametrize("nothing", ["None", None, "Whatever"])
def test_a_driver_that_asks_for_nothing_is_no_fault(nothing):
    assert judge(event(5, 154, recovery_action=nothing)).is_empty()


def test_154_changes_only_the_action_of_what_is_active():
    found = judge(event(5, 62), event(6, 154, recovery_action="Node Reboot Required"), ends=10)
    wanted = [(5.0, "xid 62", True, "reset_gpu"), (6.0, "xid 62", True, "reboot_node")]
    assert said(found, "code", "active", "action") == wanted
    assert found["first_bad_at"].n_unique() == 1


def test_154_of_another_gpu_changes_nothing():
    found = judge(event(5, 62), event(6, 154, gpu=4, recovery_action="Node Reboot Required"), ends=10)
    assert said(found, "entity", "code") == [(5.0, "n1/3", "xid 62"), (6.0, "n1/4", "xid 154")]


def test_state_is_empty_when_nothing_is_active_and_the_memory_of_returns_is_over():
    forgetful = XidFault(hold_seconds=10, memory_seconds=20)
    _, state = run(forgetful, {GpuEvent: rows(GpuEvent, event(5, 62), event(6, 31))}, 60)
    assert state.is_empty()


def samples(*times, energy=lambda time: 1e6 + time, gpu=3):
    return [{"time": time, "node": "n1", "gpu": gpu, "energy_joules_total": energy(time)} for time in times]


def judge_returns(events, given, ends=400, cuts=()):
    detector = XidFault(hold_seconds=20, pause_seconds=60)
    return run(detector, {GpuEvent: rows(GpuEvent, *events), Gpu: rows(Gpu, *given)}, ends, cuts)[0].filter("active")


def test_a_code_that_outlives_two_reboots_asks_for_field_diagnostics():
    at_work = [*range(12), *range(80, 112), *range(190, 212), *range(300, 312)]
    found = judge_returns([event(10, 119), event(110, 119), event(210, 119), event(310, 119)], samples(*at_work))
    assert said(found, "action") == [
        (10.0, "reset_gpu"), (110.0, "reset_gpu"), (210.0, "field_diagnostics"), (310.0, "field_diagnostics"),
    ]  # fmt: skip


def test_rows_away_for_half_a_minute_are_no_return_and_for_more_than_a_minute_one():
    def last_action(*at_work):
        tables = {
            GpuEvent: rows(GpuEvent, *(event(at, 119) for at in (10, 110, 210))), Gpu: rows(Gpu, *samples(*at_work)),
        }  # fmt: skip
        return run(XidFault(hold_seconds=20), tables, 220)[0].filter("active")["action"][-1]

    assert last_action(*range(12), *range(42, 112), *range(142, 212)) == "reset_gpu"
    assert last_action(*range(12), *range(80, 112), *range(190, 212)) == "field_diagnostics"


@pytest.mark.parametrize(("days", "action"), [(10, "field_diagnostics"), (20, "reset_gpu")])
def test_returns_are_remembered_for_a_fortnight(days, action):
    times = [number * days * 86_400 for number in range(3)]
    tables = {
        GpuEvent: rows(GpuEvent, *(event(time + 10, 119) for time in times)),
        Gpu: rows(Gpu, *samples(*(time + at for time in times for at in range(12)))),
    }
    assert run(XidFault(), tables, times[-1] + 100)[0].filter("active")["action"][-1] == action


def test_a_driver_loaded_anew_is_a_return_without_any_pause():
    energy = lambda time: 1e6 + time if time < 50 else time % 100  # falls at 100, 200, ...  # noqa: E731
    found = judge_returns([event(10, 62), event(110, 62), event(210, 62)], samples(*range(0, 220, 5), energy=energy))
    assert said(found, "action")[-1] == (210.0, "field_diagnostics")


def test_the_third_time_within_the_hold_is_said_at_once():
    detector = XidFault(hold_seconds=1000)
    given = samples(*range(12), *range(80, 112), *range(190, 212))
    events = rows(GpuEvent, event(10, 62), event(110, 62), event(210, 62))
    found = run(detector, {GpuEvent: events, Gpu: rows(Gpu, *given)}, 400)[0]
    assert said(found, "action") == [(10.0, "reset_gpu"), (210.0, "field_diagnostics")]


def test_a_code_that_repeats_without_a_return_stays_a_reset():
    found = judge_returns([event(10, 62), event(110, 62), event(210, 62)], samples(*range(0, 220, 5)))
    assert set(found["action"]) == {"reset_gpu"}


def test_returns_of_another_gpu_do_not_count():
    at_work = [*range(12), *range(80, 112), *range(190, 212)]
    given = [*samples(*at_work, gpu=4), *samples(*range(220))]
    found = judge_returns([event(10, 62), event(110, 62), event(210, 62)], given)
    assert set(found["action"]) == {"reset_gpu"}


RUNS = st.lists(st.tuples(st.integers(1, 40), st.sampled_from(["rows", "silence", "reload", "event"])), max_size=14)


@settings(max_examples=30, deadline=None)
@given(runs=RUNS, cuts=cutting(300))
def test_no_cut_changes_what_is_known_of_returns(runs, cuts):
    given, events, now, energy = [], [], 0, 0
    for length, what in runs:
        if what == "event":
            events.append(event(now, 62))
        energy = 0 if what == "reload" else energy
        if what in {"rows", "reload"}:
            given += [*samples(*range(now, now + length), energy=lambda time, e=energy, n=now: e + time - n)]
            energy += length
        now += length
    detector = XidFault(hold_seconds=15, pause_seconds=10)
    tables = {GpuEvent: rows(GpuEvent, *events), Gpu: rows(Gpu, *given)}
    assert_cuts_change_nothing(detector, tables, 600, cuts)


EVENTS = st.builds(
    event,
    st.integers(0, 80).map(lambda half: half / 2),
    st.sampled_from([None, 31, 48, 79, 119, 154]),
    gpu=st.sampled_from([None, 0, 1]),
    kind=st.sampled_from(["xid", "xid", "sxid", "fallen_off_bus"]),
    recovery_action=st.sampled_from([None, "None", "GPU Reset Required", "Drain P2P"]),
)


@settings(max_examples=30, deadline=None)
@given(events=st.lists(EVENTS, max_size=20), cuts=cutting(60))
def test_no_cut_changes_anything(events, cuts):
    assert_cuts_change_nothing(XidFault(hold_seconds=4), {GpuEvent: rows(GpuEvent, *events)}, 60, cuts)


def test_findings_name_the_evidence():
    found = judge(event(5, 79, pci="0000:1b:00", message="GPU has fallen off the bus."), ends=6)
    assert found.select(pl.col("evidence").str.json_path_match("$.pci")).item() == "0000:1b:00"
