import pytest

from detectors.fabric.bit_errors import BitErrors
from tests.detectors.fabric.fabric_timelines import A, B, judge, port, statements

GIGABITS = 400.0
BITS = GIGABITS * 1e9 * 30


def samples(end=B, step=30, start=0, **columns):
    """A sample every step; each column a list of values, one a sample."""
    count = len(next(iter(columns.values())))
    return [
        {**port(start + step * n, end, downed=0), "rate_gigabits_per_second": GIGABITS, "counter_width": "extended"}
        | {name: values[n] for name, values in columns.items()}
        for n in range(count)
    ]


def totals(per_sample):
    """A counter that has grown by so much at each sample, from anywhere."""
    return [1000 + sum(per_sample[: n + 1]) for n in range(len(per_sample))]


def raw(*rates):
    return samples(raw_bit_error_rate=list(rates))


def test_raw_errors_above_the_warning_twice_are_a_degraded_link():
    findings = judge(BitErrors(), raw(1e-8, 6e-6, 6e-6))
    assert statements(findings) == [(60, "c1", True)]
    assert findings.select("code", "severity", "cause").row(0) == ("raw", "ticket", "link_degraded")


def test_one_bad_sample_is_not():
    assert judge(BitErrors(), raw(1e-8, 6e-6, 1e-8, 6e-6, 1e-8)).is_empty()


def test_between_warning_and_normal_what_was_said_holds():
    # UFM's three levels: 5e-6 begins, 2e-6 changes nothing, below 1e-6 for a minute ends.
    assert judge(BitErrors(), raw(*[2e-6] * 10)).is_empty()
    findings = judge(BitErrors(), raw(1e-8, 6e-6, 6e-6, *[2e-6] * 10, *[5e-7] * 3))
    assert statements(findings) == [(60, "c1", True), (450, "c1", False)]


def test_raw_errors_near_the_limit_of_the_code_are_a_page():
    assert judge(BitErrors(), raw(1e-8, 6e-6, 6e-6, 2e-4))["severity"].to_list() == ["ticket", "page"]


def test_raw_errors_are_counted_where_only_a_counter_is():
    # 7.2e7 corrected codewords in 30 s of 400 Gb/s: 6e-6.
    findings = judge(BitErrors(), samples(fec_corrected_total=totals([0, 72_000_000, 72_000_000])))
    assert statements(findings) == [(60, "c1", True)]


def test_twelve_symbol_errors_in_thirty_seconds_are_enough_at_once():
    findings = judge(BitErrors(), samples(symbol_error_total=totals([0, 0, 0, 12])))
    assert statements(findings) == [(90, "c1", True)]
    assert findings["code"].to_list() == ["symbol"]


def test_an_error_an_hour_is_within_the_normal_rate():
    # 1e-15 at 400 Gb/s is one in 42 minutes.
    assert judge(
        BitErrors(), samples(symbol_error_total=totals([1 if n % 120 == 60 else 0 for n in range(600)]))
    ).is_empty()


def test_a_few_errors_again_and_again_are_not():
    findings = judge(BitErrors(), samples(symbol_error_total=totals([2 if n > 10 else 0 for n in range(40)])))
    assert statements(findings)[0][0] <= 30 * 17
    assert (findings["first_bad_at"][0] - findings["time"][0]).total_seconds() < 0


def test_errors_left_of_many_raw_ones_are_over_with_them():
    # Else the test would want 24.5 / (9e-15 x 4e11) = 6,800 s of health, long after the light is back.
    symbols = [0, 12, 12, 12, 12, 0, 0, 0]
    rates = [1e-8, 6e-6, 6e-6, 6e-6, 1e-8, 1e-8, 1e-8, 1e-8]
    findings = judge(BitErrors(), samples(symbol_error_total=totals(symbols), raw_bit_error_rate=rates))
    assert statements(findings) == [(30, "c1", True), (150 + 60, "c1", False)]


def test_errors_left_beside_a_good_raw_rate_take_evidence_to_be_over():
    findings = judge(
        BitErrors(), samples(symbol_error_total=totals([0, 12, *[0] * 40]), raw_bit_error_rate=[1e-8] * 42)
    )
    assert statements(findings) == [(30, "c1", True)]


def test_post_correction_errors_at_ten_times_the_warning_are_seen_in_one_sample():
    errors = round(1e-11 * BITS)
    findings = judge(BitErrors(), samples(effective_error_total=totals([0, 0, errors])))
    assert (statements(findings), findings["code"].to_list()) == ([(60, "c1", True)], ["effective"])


# Evidence of one sample: errors * ln(10) - 1.2e13 bits * (faulty - healthy); 24.5 are enough. 57 * 2.303 - 108 = 23.2
# and 58 * 2.303 - 108 = 25.5; 10 * 2.303 - 0.1 = 22.9 and 11 * 2.303 - 0.1 = 25.2.
@pytest.mark.parametrize(("counter", "few"), [("effective_error_total", 57), ("symbol_error_total", 10)])
def test_the_evidence_that_is_enough_is_that_of_one_error_more(counter, few):
    assert judge(BitErrors(), samples(**{counter: totals([0, 0, few])})).is_empty()
    assert statements(judge(BitErrors(), samples(**{counter: totals([0, 0, few + 1])}))) == [(60, "c1", True)]


def test_half_a_decade_below_the_page_is_a_ticket():
    assert judge(BitErrors(), raw(1e-8, 5e-5, 5e-5))["severity"].to_list() == ["ticket"]


def test_a_port_that_does_not_tell_its_rate_is_taken_for_one_of_400_gigabits():
    # 5e-6 of 1.2e13 bits are 6e7.
    def judged(corrected):
        rows = samples(fec_corrected_total=totals([0, corrected, corrected]))
        return statements(judge(BitErrors(), [{**row, "rate_gigabits_per_second": None} for row in rows]))

    assert judged(40_000_000) == []
    assert judged(72_000_000) == [(60, "c1", True)]


def test_errors_of_a_link_that_has_just_retrained_are_the_flaps():
    rows = raw(1e-8, 1e-8, *[6e-6] * 8)
    for row in rows[2:]:
        row["link_downed_total"] = 1
    assert judge(BitErrors(), rows).is_empty()


def test_and_those_that_stay_after_five_minutes_are_the_links():
    # Seen in the field: ten times the errors after a flap, with the link up.
    rows = raw(1e-8, 1e-8, *[6e-6] * 20)
    for row in rows[2:]:
        row["link_downed_total"] = 1
    assert statements(judge(BitErrors(), rows)) == [(60 + 300 + 60, "c1", True)]


def test_a_counter_that_was_cleared_tells_nothing_about_the_time_before():
    assert judge(BitErrors(), samples(symbol_error_total=[500, 500, 40, 40, 40])).is_empty()


def test_a_classic_counter_at_its_top_tells_nothing():
    rows = samples(symbol_error_total=[65500, 65500, 65535, 65535])
    for row in rows:
        row["counter_width"] = "classic"
    assert judge(BitErrors(), rows).is_empty()


def test_an_average_since_the_last_clearing_is_not_taken_for_a_rate_of_now():
    rows = samples(
        raw_bit_error_rate=[8e-6] * 6, seconds_since_clear=[1e6 + 30 * n for n in range(6)],
        fec_corrected_total=totals([0] * 6),
    )  # fmt: skip
    assert judge(BitErrors(), rows).is_empty()


@pytest.mark.parametrize("end", [A, B])
def test_either_end_speaks_for_the_link(end):
    other = B if end == A else A
    rows = samples(end=other, raw_bit_error_rate=[1e-8] * 3) + samples(end=end, raw_bit_error_rate=[6e-6] * 3, start=5)
    assert [entity for _, entity, _ in statements(judge(BitErrors(), rows))] == ["c1"]
