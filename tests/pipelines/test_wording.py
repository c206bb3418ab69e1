"""Lists in a line, and text in a cell."""

import pytest

from pipelines.wording import in_a_cell


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("<b>a & b</b>", "&lt;b&gt;a &amp; b&lt;/b&gt;"),
        ("one\r\ntwo\rthree\nfour", "one two three four"),
        ("a|b", r"a\|b"),
        (r"a\|b", r"a\\\|b"),  # a backslash before it must not free the bar
    ],
)
def test_a_cell_stays_one_cell_of_text(text: str, cell: str) -> None:
    assert in_a_cell(text) == cell
