"""Lists in a line, and text in a cell."""

import pytest

from pipelines.wording import in_a_cell, printable


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("<b>a & b</b>", "&lt;b&gt;a &amp; b&lt;/b&gt;"),
        ("one\r\ntwo\rthree\nfour", "one two three four"),
        ("a|b", r"a\|b"),
        ("![i](http://a.test/seen.png)", r"!\[i](http://a.test/seen.png)"),  # which a reader's browser would fetch
        (r"a\|b", r"a\\\|b"),  # a backslash before it must not free the bar
    ],
)
def test_a_cell_stays_one_cell_of_text(text: str, cell: str) -> None:
    assert in_a_cell(text) == cell


def test_what_steers_a_terminal_or_turns_text_round_is_not_shown() -> None:
    # ECMA-48: ESC [ and its one-letter form CSI clear and colour a screen, ESC ] names its window, BEL rings, CR goes
    # back to the begin of the line; Unicode: U+202E turns round what follows, U+2028 ends a line, U+200B is not seen.
    hostile = "n1\x1b[2J\x1b]0;mine\x07\rn2\x9b31m\u202egpj\u2028n3\u200b\tGr\u00fc\u00dfe"
    assert printable(hostile) == "n1?[2J?]0;mine? n2?31m?gpj n3? Gr\u00fc\u00dfe"
    assert printable("one\ntwo", keep="\n") == "one\ntwo"
    assert in_a_cell("a\x1b]0;\u202eb") == "a?]0;?b"
