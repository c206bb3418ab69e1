"""Bundles of an earlier day, kept in tests/data/bundles: this code judges them as that day's did."""

import os
import subprocess
from pathlib import Path

import pytest

from pipelines.bundles.bundle import decode
from pipelines.bundles.source import bundle_source
from pipelines.bundles.verify import divergence
from pipelines.pacing import window_seconds
from pipelines.rejudge import rejudge
from pipelines.settings import Settings

ROOT = Path(__file__).resolve().parents[3]
KEPT = sorted((ROOT / "tests/data/bundles").glob("*.hotspare"))
CHANGED = (
    "decisions are others now: if that is meant, say so in docs/decisions.md and run python -m tests.data.make_bundles"
)
OTHER_PYTHON = os.environ.get("HOTSPARE_OTHER_PYTHON", "")


def test_there_are_three() -> None:
    assert len(KEPT) == 3


@pytest.mark.parametrize("path", KEPT, ids=[path.stem for path in KEPT])
def test_a_kept_bundle_is_judged_as_it_was_then(path: Path) -> None:
    bundle = decode(path, 2**20)
    found = divergence(bundle, rejudge(bundle_source(bundle, seconds=window_seconds(None)), Settings()))
    assert found is None, f"{CHANGED} ({found})"


@pytest.mark.skipif(not OTHER_PYTHON, reason="HOTSPARE_OTHER_PYTHON names no other Python that has requirements.lock")
@pytest.mark.parametrize("path", KEPT, ids=[path.stem for path in KEPT])
def test_another_version_of_python_judges_it_the_same(path: Path) -> None:
    command = [OTHER_PYTHON, "-m", "pipelines.cli", "replay", str(path), "--verify"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, ""), run.stdout
