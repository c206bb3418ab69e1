"""What commands say to input that is broken: one line, which ends with 2 (tests/pipelines/test_cli.py), and no file."""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipelines.bundles.bundle import Bundle, encode
from pipelines.cli.main import EXPECTED, app
from pipelines.cli.output import write_whole
from tests.pipelines.bundles.conftest import Place
from tests.pipelines.bundles.test_bundle import changed


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def edited(path: Path) -> None:
    changed(path, "remarks.json", b"[]")


def newer(path: Path) -> None:
    changed(path, "manifest.json", b'{"bundle": 2}')


def climbing(path: Path) -> None:
    changed(path, "../incident.toml", b"x")


COMMANDS = (
    ("replay", "incident.hotspare"),
    ("replay", "incident.hotspare", "--verify"),
    ("replay", "incident.hotspare", "--diff", "good.toml"),
    ("postmortem", "incident.hotspare", "--to", "report.html"),
)


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments])
    assert isinstance(result.exception, EXPECTED), result.output
    line = str(result.exception)
    assert "\n" not in line
    return line


@pytest.fixture
def here(tmp_path: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "incident.hotspare").write_bytes(encode(bundle))
    (tmp_path / "good.toml").write_text("[detectors.'gpu.xid']\nhold_seconds = 1\n")
    (tmp_path / "typo.toml").write_text("[detectors.'gpu.xid']\nhold_secs = 1\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (truncated, "incident.hotspare: a damaged bundle"),
        (edited, "remarks.json is not what was exported"),
        (newer, "a bundle of version 2, this hotspare reads 1; update hotspare"),
        (climbing, "'../incident.toml' has no place in a bundle"),
    ],
)
def test_a_broken_bundle_is_one_line_and_leaves_no_file(spoil: Callable[[Path], None], said: str, here: Path) -> None:
    spoil(here / "incident.hotspare")
    before = sorted(here.rglob("*"))
    for command in COMMANDS:
        assert said in refused(*command)
    assert sorted(here.rglob("*")) == before


@pytest.mark.parametrize(
    "command",
    [
        ("replay", "incident.hotspare", "--diff", "typo.toml"),
        ("postmortem", "incident.hotspare", "--to", "report.html", "--diff", "typo.toml"),
        ("backtest", "--settings", "typo.toml", "--to", "report.md"),
    ],
    ids=lambda command: command[0],
)
def test_a_typo_in_the_other_settings_is_told_with_what_was_meant_and_leaves_no_file(
    command: tuple[str, ...], here: Path
) -> None:
    before = sorted(here.rglob("*"))
    assert "did you mean 'hold_seconds'" in refused(*command)
    assert sorted(here.rglob("*")) == before


def test_an_incident_whose_time_is_gone_and_a_window_of_which_nothing_is_stored_leave_no_file(
    place: Place, here: Path
) -> None:
    store = place.settings.store
    (here / "hotspare.toml").write_text(
        f'[store]\ntelemetry = "{store.telemetry}"\noperations = "{store.operations}"\n'
    )
    before = sorted(here.rglob("*"))
    empty = ("--since", "2025-01-01", "--until", "2025-01-02")
    assert "nothing is stored of" in refused("replay", "store:2025-01-01T00:00:00Z..2025-01-01T01:00:00Z")
    assert "nothing is stored of" in refused("backtest", *empty, "--settings", "good.toml", "--to", "report.md")
    assert "is there already" in refused("incidents", "export", place.incident.id, "--to", "incident.hotspare")
    assert sorted(here.rglob("*")) == before


def test_a_file_that_cannot_be_written_whole_is_not_there_at_all(here: Path) -> None:
    (here / "report.md").mkdir()
    (here / "report.md" / "x").touch()
    with pytest.raises(EXPECTED, match=r"report\.md"):
        write_whole(here / "report.md", "text")
    assert not (here / "report.md.part").exists()
