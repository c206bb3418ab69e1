import json

import pytest

from detectors.fabric.worse_after_flap import WorseAfterFlap
from tests.detectors.fabric.fabric_timelines import A, B, judge, port, statements

BEFORE = 2e-8
STEP = 30


def rows(*phases, end=B):
    """Phases of (raw, samples) or (None, samples) for down, a sample every 30 s; each outage counts one."""
    found, downed = [], 0
    for raw, samples in phases:
        downed += raw is None
        for _ in range(samples):
            state = "down" if raw is None else "active"
            found.append({**port(STEP * len(found), end, state, downed=downed), "raw_bit_error_rate": raw})
    return found


def test_ten_times_as_many_errors_after_an_outage_are_a_ticket():
    # Down at 300, up at 330; the last sample of an untrained link is that at 300, so 300 s later it has settled: the
    # samples at 630 and 660 say so.
    findings = judge(WorseAfterFlap(), rows((BEFORE, 10), (None, 1), (10.5 * BEFORE, 20)))
    assert statements(findings) == [(660, "c1", True)]
    assert findings.select("cause", "code", "severity").row(0) == ("link_degraded", "after_retrain", "ticket")
    seen = json.loads(findings["evidence"][0])
    assert seen["part"] == "spine-000:2"
    assert seen["raw_bit_error_rate_before"] == pytest.approx(BEFORE)


def test_nine_times_is_not():
    assert judge(WorseAfterFlap(), rows((BEFORE, 10), (None, 1), (9 * BEFORE, 40))).is_empty()


def test_errors_that_rise_without_an_outage_are_another_detectors():
    assert judge(WorseAfterFlap(), rows((BEFORE, 20), (50 * BEFORE, 40))).is_empty()


def test_a_link_that_adapts_within_five_minutes_is_well():
    assert judge(WorseAfterFlap(), rows((BEFORE, 10), (None, 1), (50 * BEFORE, 9), (BEFORE, 20))).is_empty()


def test_so_few_errors_that_nothing_need_be_corrected_are_no_ticket():
    assert judge(WorseAfterFlap(), rows((1e-12, 10), (None, 1), (9e-10, 40))).is_empty()


def test_two_samples_are_too_few_to_know_what_was_before():
    assert judge(WorseAfterFlap(), rows((BEFORE, 2), (None, 1), (50 * BEFORE, 40))).is_empty()


def test_outages_that_follow_each_other_keep_what_was_before_the_first():
    said = judge(WorseAfterFlap(), rows((BEFORE, 10), (None, 1), (20 * BEFORE, 5), (None, 1), (20 * BEFORE, 20)))
    assert statements(said) == [(840, "c1", True)]


def test_it_ends_when_a_later_training_finds_the_old_rate():
    said = judge(WorseAfterFlap(), rows((BEFORE, 10), (None, 1), (20 * BEFORE, 20), (None, 1), (BEFORE, 30)))
    assert [active for *_, active in statements(said)] == [True, False]


def test_training_again_while_it_is_bad_does_not_make_the_bad_rate_the_usual_one():
    said = judge(WorseAfterFlap(), rows((BEFORE, 10), (None, 1), (20 * BEFORE, 20), (None, 1), (20 * BEFORE, 60)))
    assert [active for *_, active in statements(said)] == [True]


def test_between_three_and_ten_times_the_level_holds():
    said = judge(WorseAfterFlap(), rows((BEFORE, 10), (None, 1), (20 * BEFORE, 20), (4 * BEFORE, 40)))
    assert [active for *_, active in statements(said)] == [True]


def test_either_end_makes_the_link_worse():
    said = judge(WorseAfterFlap(), rows((BEFORE, 10), (None, 1), (20 * BEFORE, 20), end=A))
    assert statements(said) == [(660, "c1", True)]


def test_counted_errors_say_more_than_a_rate_since_the_last_clearing():
    found, total = [], 0
    for number, row in enumerate(rows((BEFORE, 10), (None, 1), (20 * BEFORE, 20))):
        total += round((row["raw_bit_error_rate"] or 0) * 400e9 * STEP)
        found.append({**row, "raw_bit_error_rate": 1e-7, "seconds_since_clear": 30.0 * number + 1e6,
                      "fec_corrected_total": total})  # fmt: skip
    assert statements(judge(WorseAfterFlap(), found)) == [(660, "c1", True)]


def test_a_rate_over_the_minimum_is_told_and_a_port_without_its_own_rate_is_taken_for_one_of_400_gigabits():
    # 1e-9 of 1.2e13 bits are 12,000 errors a sample.
    def counted(usual, now):
        found, total = [], 0
        for row in rows((usual, 10), (None, 1), (now, 20)):
            total += round((row["raw_bit_error_rate"] or 0) * 400e9 * STEP)
            found.append({**row, "raw_bit_error_rate": None, "fec_corrected_total": total})
        return statements(judge(WorseAfterFlap(), found))

    assert counted(2e-11, 5e-10) == []
    assert counted(2e-11, 2e-9) == [(660, "c1", True)]


def test_it_ends_after_a_minute_at_the_old_rate():
    said = judge(WorseAfterFlap(), rows((BEFORE, 10), (None, 1), (20 * BEFORE, 20), (BEFORE, 10)))
    assert statements(said) == [(660, "c1", True), (990, "c1", False)]


@pytest.mark.parametrize(("after", "found"), [(40, 0), (100, 1)])
def test_what_was_before_the_outage_is_a_mean_of_some_sixty_samples(after, found):
    # 20 times for 100 samples, then as ever for 60: (59/60)^60 = 0.36 of the 19 times more are still in it, 7.9 times
    # in all; a mean of fifteen would have 1.3, one of all samples 12.9.
    said = judge(WorseAfterFlap(), rows((20 * BEFORE, 100), (BEFORE, 60), (None, 1), (after * BEFORE, 20)))
    assert len(statements(said)) == found
