"""The report of the incident that tests/pipelines/bundles uses."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pipelines.bundles.bundle import Bundle
from pipelines.postmortem.report import NOTHING_YET, document, html, markdown
from pipelines.postmortem.timeline import timeline, times
from tests.pipelines.bundles.conftest import SAID, bundle, place  # noqa: F401  # fixtures

PRICE = 2.0
HOSTILE = "<script>alert(1)</script>|x\ny"


def test_the_timeline_is_in_order_and_begins_with_the_onset(bundle: Bundle) -> None:  # noqa: F811
    entries = timeline(bundle)
    assert [one.at for one in entries] == sorted(one.at for one in entries)
    ours = [one.what for one in entries if one.at >= bundle.incident.starts_at and one.what != "maintenance"]
    assert ours[0] == "telemetry"
    assert {"finding", "incident", "action", "person"} <= set(ours)


def test_times_count_from_the_onset(bundle: Bundle) -> None:  # noqa: F811
    measured = times(bundle)
    incident = bundle.incident
    assert measured.detect == (incident.detected_at - incident.starts_at).total_seconds()
    assert measured.acknowledge == (SAID - incident.starts_at).total_seconds()
    assert measured.mitigate is None  # all was rehearsed, and nobody said so


def test_the_loss_is_members_times_duration_at_the_price(bundle: Bundle) -> None:  # noqa: F811
    incident = bundle.incident
    until = incident.ends_at or bundle.manifest.ends_at
    seconds = len(incident.members) * (until - incident.starts_at).total_seconds()
    impact = document(bundle, PRICE)["impact"]
    assert impact["lost_gpu_seconds"] == seconds
    assert impact["dollars"] == round(seconds / 3600 * PRICE, 2)
    assert json.dumps(document(bundle, PRICE))


def test_what_people_wrote_survives_writing_it_anew(bundle: Bundle) -> None:  # noqa: F811
    first = markdown(bundle, PRICE)
    edited = first.replace(NOTHING_YET, "The riser card was loose.\n\n- reseat all of them", 1)
    again = markdown(bundle, PRICE, edited)
    assert "The riser card was loose.\n\n- reseat all of them\n<!-- end -->" in again
    assert markdown(bundle, PRICE, again) == again


class Page(HTMLParser):
    """Tags that are never closed, and everything that would be fetched."""

    VOID = frozenset({"meta", "br", "line", "polyline", "polygon", "link", "img"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.fetched += [value or "" for name, value in attrs if name in {"src", "href", "srcset", "action"}]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_the_page_is_one_small_file_that_fetches_nothing(bundle: Bundle) -> None:  # noqa: F811
    text = html(bundle, PRICE)
    page = Page()
    page.feed(text)
    assert (page.open, page.fetched) == ([], [])
    assert "url(" not in text
    assert len(text) < 3_000_000
    assert text.count("<svg") >= 3


def test_hostile_names_and_notes_stay_text(bundle: Bundle) -> None:  # noqa: F811
    note = replace(bundle.remarks[0], kind="note", text=HOSTILE, by=HOSTILE)
    hostile = replace(bundle, remarks=(note,))
    assert "<script>" not in html(hostile, PRICE)
    text = markdown(hostile, PRICE)
    assert "<script>" not in text
    (row,) = (line for line in text.splitlines() if "script" in line)
    assert len(re.findall(r"(?<!\\)\|", row)) == 5


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
@pytest.mark.parametrize("width", [380, 1200])
def test_a_browser_shows_it_without_scrolling_sideways(bundle: Bundle, tmp_path: Path, width: int) -> None:  # noqa: F811
    page = tmp_path / "report.html"
    probe = (
        "<script>document.title = document.documentElement.scrollWidth + ' ' + document.querySelectorAll('svg').length"
    )
    shown = html(bundle, PRICE).replace("default-src 'none'", "script-src 'unsafe-inline'")
    page.write_text(shown.replace("</body>", f"{probe}</script></body>"))
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},900",
               f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", page.as_uri()]  # fmt: skip
    dumped = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    found = re.search(r"<title>(\d+) (\d+)</title>", dumped)
    assert found is not None
    assert int(found[1]) <= max(width, 500)  # headless chromium is never narrower than 500
    assert int(found[2]) >= 3
