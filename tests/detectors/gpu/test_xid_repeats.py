import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.gpu.xid_repeats import XidRepeats
from schemas.gpu import GpuEvent
from tests.detectors.timelines import assert_cuts_change_nothing, cutting, rows, run, said

DAY = 86_400


def event(time, code, *, node="n1", gpu=3, tpc=1, kind="xid"):
    text = {
        13: f"NVRM: Xid (PCI:0000:38:00): 13, Graphics SM Warp Exception on (GPC 9, TPC {tpc}, SM 1): Out Of Range",
        31: "NVRM: Xid (PCI:0000:38:00): 31, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS",
    }.get(code, "")
    return {"time": time, "node": node, "gpu": gpu, "kind": kind, "code": code, "message": text}


def judge(*events, ends=DAY, detector=XidRepeats()):  # noqa: B008  # frozen
    return run(detector, {GpuEvent: rows(GpuEvent, *events)}, ends)[0]


@pytest.mark.parametrize("code", [13, 31])
def test_the_second_time_within_a_day_is_a_ticket_for_diagnostics(code):
    found = judge(event(100, code), event(5000, code))
    assert said(found, "cause", "entity", "code", "severity", "action", "active") == [
        (5045.0, "gpu_fatal_error", "n1/3", f"xid {code} again", "ticket", "field_diagnostics", True)
    ]


def test_onset_is_the_first_time():
    assert judge(event(100, 31), event(5000, 31))["first_bad_at"].item().minute == 1


def test_once_is_the_application():
    assert judge(event(100, 31), event(100.2, 31), event(101, 31)).is_empty()


def test_another_processor_of_the_same_gpu_is_another_place():
    assert judge(event(100, 13, tpc=1), event(5000, 13, tpc=2)).is_empty()


def test_a_line_that_names_no_processor_is_no_place():
    nameless = [{**event(at, 13), "message": "NVRM: Xid (PCI:0000:38:00): 13, Graphics Exception"} for at in (9, 5000)]
    assert judge(*nameless).is_empty()


def test_another_gpu_is_another_place():
    assert judge(event(100, 31), event(5000, 31, gpu=4)).is_empty()


def test_more_than_a_day_apart_is_not_again():
    assert judge(event(100, 31), event(100 + DAY + 1, 31), ends=2 * DAY).is_empty()


def test_a_crash_that_shows_on_three_gpus_is_the_program():
    crash = [event(at + gpu * 20, 31, gpu=gpu) for at in (100, 5000) for gpu in range(3)]
    assert judge(*crash).is_empty()


def test_two_gpus_are_not_yet_a_program():
    both = [event(at + gpu * 20, 31, gpu=gpu) for at in (100, 5000) for gpu in range(2)]
    assert sorted(judge(*both)["entity"]) == ["n1/0", "n1/1"]


def test_many_processors_of_one_gpu_are_one_gpu():
    lines = [event(at, 13, tpc=tpc) for at in (100, 5000) for tpc in range(5)]
    assert judge(*lines)["entity"].to_list() == ["n1/3"]


@pytest.mark.parametrize("code", [43, 45, 94])
def test_other_codes_may_repeat(code):
    assert judge(event(100, code), event(5000, code), event(9000, code)).is_empty()


def test_a_switch_has_other_codes():
    assert judge(event(100, 31, kind="sxid"), event(5000, 31, kind="sxid")).is_empty()


def test_it_ends_a_window_after_the_last_time():
    detector = XidRepeats(window_seconds=1000)
    found = judge(event(100, 31), event(500, 31), event(1200, 31), ends=5000, detector=detector)
    assert said(found, "active") == [(545.0, True), (2245.0, False)]


def test_ten_hours_later_is_again_and_it_is_over_a_day_after_that():
    found = judge(event(100, 31), event(36_100, 31), ends=2 * DAY)
    assert said(found, "active") == [(36_145.0, True), (36_145.0 + DAY, False)]


def test_half_a_minute_later_is_the_same_time_and_two_minutes_later_another():
    assert judge(event(100, 31), event(130, 31)).is_empty()
    assert said(judge(event(100, 31), event(220, 31)), "active") == [(265.0, True)]


EVENTS = st.builds(
    event, st.integers(0, 600), st.sampled_from([13, 31]), gpu=st.sampled_from([0, 1, 2]), tpc=st.sampled_from([0, 1])
)


@settings(max_examples=60, deadline=None)
@given(events=st.lists(EVENTS, max_size=25), cuts=cutting(900))
def test_no_cut_changes_anything(events, cuts):
    detector = XidRepeats(window_seconds=150, occurrence_seconds=10, company_seconds=8)
    assert_cuts_change_nothing(detector, {GpuEvent: rows(GpuEvent, *events)}, 900, cuts)


@settings(max_examples=20, deadline=None)
@given(events=st.lists(EVENTS, max_size=25))
def test_state_is_empty_in_the_end(events):
    detector = XidRepeats(window_seconds=150, occurrence_seconds=10, company_seconds=8)
    assert run(detector, {GpuEvent: rows(GpuEvent, *events)}, 1200)[1].is_empty()
