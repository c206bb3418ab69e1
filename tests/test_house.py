"""The house rules that a reader relies on: small files, small functions, no drawers for odds and ends."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("schemas", "detectors", "replay", "pipelines")
SOURCES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
FILE_LINES_MAXIMUM = 320
FUNCTION_LINES_MAXIMUM = 75
DRAWERS = {"utils", "helpers", "common", "misc", "manager", "managers"}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_is_the_one_in_this_repository(room: str) -> None:
    assert Path(str(importlib.import_module(room).__file__)).parent == ROOT / room


def test_files_are_short() -> None:
    long = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in SOURCES}
    assert {name: lines for name, lines in long.items() if lines > FILE_LINES_MAXIMUM} == {}


def test_functions_are_short() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{node.name}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= FUNCTION_LINES_MAXIMUM
    ]
    assert long == []


def test_nothing_is_put_in_a_drawer() -> None:
    assert [str(path) for path in SOURCES if {path.stem, *path.parent.parts} & DRAWERS] == []


def test_packages_export_nothing() -> None:
    assert [str(path) for path in SOURCES if path.name == "__init__.py" and path.read_text().strip()] == []


def test_nothing_below_pipelines_asks_for_the_time() -> None:
    asked = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in SOURCES
        if path.relative_to(ROOT).parts[0] != "pipelines"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in {"now", "utcnow", "today", "monotonic", "perf_counter"}
        and isinstance(node.value, ast.Name) and node.value.id in {"datetime", "time", "date"}
    ]  # fmt: skip
    assert asked == []


def test_nothing_is_pickled_or_handed_to_a_shell() -> None:
    banned = {"pickle", "shelve", "marshal", "dill", "joblib"}
    found = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            shells = isinstance(node, ast.keyword) and node.arg == "shell"
            if banned & set(names) or shells:
                found.append(f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}")
    assert found == []


def test_the_lock_pins_everything_with_hashes_and_names_no_address() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    requirements = [
        block for block in lock.replace("\\\n", " ").splitlines() if block and not block.startswith((" ", "#"))
    ]
    assert len(requirements) > 50
    assert [line for line in requirements if "==" not in line or "--hash=sha256:" not in line] == []
    assert "://" not in lock
    assert "--index" not in lock


def test_importing_the_catalogue_computes_nothing() -> None:
    """A Polars expression at import starts its threads; a process that forks after that, as Dagster's do, hangs."""
    count = "len(os.listdir('/proc/self/task'))"
    program = (
        f"import os, polars, numpy, dataframely; before = {count}; import detectors.catalog, replay.simulate; "
        f"print({count} - before)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert int(told.stdout) <= 1  # pyarrow has one of its own
