"""docs/lightning_strike.*, which `make strike` writes, are of the scenario as it is.

Writing them takes half a minute of processor, so that is not repeated here.
"""

from datetime import timedelta
from pathlib import Path

import pytest

from replay.scenario import load_scenario

DOCS = Path(__file__).resolve().parent.parent / "docs"
SCENARIO = load_scenario("history/lightning_strike")


@pytest.mark.parametrize("ending", ["md", "html"])
def test_the_report_names_what_the_scenario_expects(ending: str) -> None:
    text = (DOCS / f"lightning_strike.{ending}").read_text("utf-8")
    (expected,) = SCENARIO.expects
    assert expected.cause in text
    assert all(root in text for root in expected.roots)
    assert f"{expected.members} GPUs" in text
    onset = SCENARIO.starts_at + timedelta(seconds=SCENARIO.faults[0].at_seconds)
    assert f"{onset:%Y-%m-%d at %H:%M:%S} UTC" in text


def test_the_page_is_small_and_asks_for_nothing_outside() -> None:
    page = (DOCS / "lightning_strike.html").read_bytes()
    assert len(page) < 300_000
    assert b"http://" not in page.replace(b"http://www.w3.org/", b"")
    assert b"https://" not in page
