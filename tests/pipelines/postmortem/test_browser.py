"""The report in a real browser: on a phone and a desk, by day and by night, and on paper."""

import json
import os
import re
import shutil
import subprocess
from html import escape, unescape
from pathlib import Path

import pytest

from pipelines.bundles.bundle import Bundle
from pipelines.postmortem.report import html

PRICE = 2.0
# One frame a reader: a phone, a desk, and the phone at night. Only what surrounds the page measures it.
READERS = (("phone", 380, "light"), ("desk", 1200, "light"), ("night", 380, "dark"))
MEASURE = """
const luminance = (colour) => { const [r, g, b] = colour.match(/[\\d.]+/g).map(Number).map((value) => {
  const share = value / 255; return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4; });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const contrast = (one, other) => { const [dark, light] = [one, other].map(luminance).sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05); };
const frames = [...document.querySelectorAll("iframe")];
addEventListener("load", () => { document.title = JSON.stringify(frames.map((frame) => {
  const page = frame.contentDocument, style = (name) => frame.contentWindow.getComputedStyle(page.querySelector(name));
  const paper = style("body").backgroundColor, axis = page.querySelector(".axis").getBoundingClientRect();
  return { wide: page.documentElement.scrollWidth, pictures: page.querySelectorAll("svg").length, height: axis.height,
    left: axis.left, paper: luminance(paper), text: contrast(style("body").color, paper),
    small: contrast(style("small").color, paper), cause: contrast(style(".incident td:nth-child(2)").color, paper) };
})); });
"""


def browser() -> str:
    """CI sets HOTSPARE_REQUIRE_CHROMIUM, so that a missing one cannot pass for a green run there."""
    found = shutil.which("chromium")
    if found is None and os.environ.get("HOTSPARE_REQUIRE_CHROMIUM") == "1":
        pytest.fail("HOTSPARE_REQUIRE_CHROMIUM=1, but there is no chromium")
    return found or pytest.skip("needs chromium")


def browsed(tmp_path: Path, *arguments: str) -> str:
    command = [browser(), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=120, check=True).stdout


def test_a_browser_shows_it_on_a_phone_and_a_desk_by_day_and_by_night(bundle: Bundle, tmp_path: Path) -> None:
    page = escape(html(bundle, PRICE))
    frames = (f'<iframe width={width} height=900 style="border: 0; color-scheme: {scheme}" srcdoc="{page}"></iframe>'
              for _, width, scheme in READERS)  # fmt: skip
    around = tmp_path / "around.html"
    around.write_text(f"<!doctype html><title></title>{''.join(frames)}<script>{MEASURE}</script>")
    dumped = browsed(tmp_path, "--window-size=1300,900", "--dump-dom", around.as_uri())
    found = re.search(r"<title>(\[.+?\])</title>", dumped)
    assert found is not None, dumped[:500]
    seen = {name: one for (name, _, _), one in zip(READERS, json.loads(unescape(found[1])), strict=True)}
    for name, width, scheme in READERS:
        one = seen[name]
        assert one["wide"] <= width, f"{name} scrolls sideways"
        assert one["pictures"] >= 3
        assert one["height"] >= 12, "an axis is to be read on a phone"  # pixels
        assert one["left"] >= 0
        assert (one["paper"] < 0.1) == (scheme == "dark")
        assert min(one["text"], one["small"], one["cause"]) >= 4.5, "WCAG 2, 1.4.3"


def test_a_browser_prints_it_on_a_few_pages(bundle: Bundle, tmp_path: Path) -> None:
    page, printed = tmp_path / "report.html", tmp_path / "report.pdf"
    page.write_text(html(bundle, PRICE))
    browsed(tmp_path, f"--print-to-pdf={printed}", "--no-pdf-header-footer", page.as_uri())
    assert 1 <= len(re.findall(rb"/Type /Page\b", printed.read_bytes())) <= 8
