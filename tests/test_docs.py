"""Generated pages say what the code says."""

from pathlib import Path

import pytest

from pipelines.docs import PAGES

DOCS = Path(__file__).resolve().parent.parent / "docs"


@pytest.mark.parametrize(("name", "page"), PAGES, ids=[name for name, _ in PAGES])
def test_a_generated_page_is_up_to_date(name: str, page) -> None:
    assert (DOCS / name).read_text() == page(), "run `make docs`"
