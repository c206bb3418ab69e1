"""The quick way through Prometheus' text says what the one regular expression says."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.formats.prometheus_text import SAMPLE, label, samples_of, with_labels

GRAMMAR = re.compile(SAMPLE, re.ASCII)
PIECES = ("up", "a_b:c", "9x", "{", "}", "} ", '"', "\\", ",", 'gpu="0"', 'host="a} 5"', 'x="\\""', "=", " ", "45",
          "-1e3", "NaN", "+Inf", "1785499200000", "# x", "\t")  # fmt: skip
LINES = st.lists(st.sampled_from(PIECES), min_size=1, max_size=8).map("".join)


@settings(max_examples=400, deadline=None)
@given(st.lists(LINES, min_size=1, max_size=5))
def test_every_line_is_read_as_the_grammar_reads_it(lines: list[str]) -> None:
    plain = [line.strip() for line in lines]
    expected = []
    for number, line in enumerate(plain, 1):
        if line and not line.startswith("#"):
            found = GRAMMAR.match(line)
            parts = (None, "") if found is None else (found["metric"], found["labels"] or "")
            expected.append((number, line, *parts))
    frame = samples_of("\n".join(lines))
    assert frame.select("line", "text", "metric", "labels").rows() == expected


@settings(max_examples=200, deadline=None)
@given(st.floats(), st.none() | st.integers(-(10**15), 10**15))
def test_values_and_stamps_are_read_exactly(value: float, stamp: int | None) -> None:
    text = f'up{{gpu="0"}} {value!r}' + ("" if stamp is None else f" {stamp}")
    row = samples_of(text).row(0, named=True)
    assert (repr(row["number"]), row["stamp"], row["rule"]) == (repr(value), stamp, None)


def test_labels_are_found_by_any_of_their_names_and_unescaped() -> None:
    frame = samples_of('a{Hostname="n1"} 1\nb{hostname="n\\"2"} 2\nc{xhostname="n3"} 3\nd 4')
    names = with_labels(frame, host=label("Hostname", "hostname"))["host"].to_list()
    assert names == ["n1", 'n"2', None, None]
