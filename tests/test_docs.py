"""Generated pages say what the code says."""

import tomllib
from pathlib import Path

import pytest

from pipelines.docs import PAGES
from pipelines.settings import settings_from

DOCS = Path(__file__).resolve().parent.parent / "docs"


@pytest.mark.parametrize(("name", "page"), PAGES, ids=[name for name, _ in PAGES])
def test_a_generated_page_is_up_to_date(name: str, page) -> None:
    assert (DOCS / name).read_text() == page(), "run `make docs`"


def test_the_settings_shown_in_the_readme_are_settings() -> None:
    readme = (DOCS.parent / "README.md").read_text()
    blocks = [block.partition("```")[0] for block in readme.split("```toml\n")[1:]]
    assert blocks
    for block in blocks:
        settings_from(tomllib.loads(block), "README.md")
