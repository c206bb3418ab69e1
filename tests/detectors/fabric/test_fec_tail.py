import json

import pytest

from detectors.fabric.fec_tail import FecTail
from tests.detectors.fabric.fabric_timelines import B, judge, port, statements

CODEWORDS = round(400e9 * 30 / 5440)


def histograms(tails, bins=16):
    """A sample every 30 s; so many codewords with half of the repairable symbols wrong since the one before."""
    rows, total = [], 0
    for number, tail in enumerate(tails):
        total += tail
        shown = [10**12 + number * CODEWORDS, 10**7 + number * 10_000, *[0] * (bins - 2)]
        shown[bins // 2] = total
        rows.append({**port(30 * number, B, downed=0), "fec_histogram": shown})
    return rows


def test_a_growing_tail_is_seen_in_two_samples():
    # 1e-9 of 2.2e9 codewords: two or three a sample.
    findings = judge(FecTail(), histograms([0, 0, 2, 2]))
    assert statements(findings) == [(90, "c1", True)]
    assert findings["code"].to_list() == ["fec_tail"]
    assert json.loads(findings["evidence"][0])["tail_share"] == pytest.approx(2 / CODEWORDS, rel=0.01)


def test_the_head_of_the_histogram_may_grow():
    assert judge(FecTail(), histograms([0] * 20)).is_empty()


def test_one_codeword_is_no_tail():
    assert judge(FecTail(), histograms([0, 0, 1, *[0] * 40])).is_empty()


def test_the_upper_half_of_a_shorter_code_is_its_tail():
    assert statements(judge(FecTail(), histograms([0, 0, 2, 2], bins=8))) == [(90, "c1", True)]


def test_an_old_tail_is_no_news():
    rows = histograms([50, 0, 0, 0])
    assert judge(FecTail(), rows).is_empty()


def test_a_cleared_histogram_tells_nothing():
    rows = histograms([50, 0, 0, 0, 0])
    for row in rows[3:]:
        row["fec_histogram"] = [100, 10, *[0] * 14]
    assert judge(FecTail(), rows).is_empty()


def test_it_ends_when_enough_codewords_have_passed_without_any():
    # 24.5 of evidence against 2.2 a sample: twelve clean samples, and a minute more.
    said = statements(judge(FecTail(), histograms([0, 3, 3, *[0] * 30])))
    assert said == [(30, "c1", True), (60 + 12 * 30 + 60, "c1", False)]


def test_the_evidence_that_is_enough_is_that_of_the_rates():
    # ln(1e-9 / 1e-13) = 9.21 a codeword, less 2.2 a sample: 3 at once are 25.4, three times one 21.0, four times 28.0.
    assert judge(FecTail(), histograms([0, 0, 1, 1, 1])).is_empty()
    assert statements(judge(FecTail(), histograms([0, 0, 3]))) == [(60, "c1", True)]
    assert statements(judge(FecTail(), histograms([0, 0, 1, 1, 1, 1]))) == [(150, "c1", True)]


def test_a_tail_of_a_link_that_has_just_retrained_is_not_told_for_five_minutes():
    rows = histograms([0, 0, *[3] * 12])
    for row in rows[2:]:
        row["link_downed_total"] = 1
    assert statements(judge(FecTail(), rows)) == [(60 + 300 + 30, "c1", True)]
