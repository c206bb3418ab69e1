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
    assert [active for _, _, active in said] == [True, False]
    assert 60 + 11 * 30 <= said[1][0] <= 60 + 15 * 30
