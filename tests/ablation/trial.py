"""The tests that speak for a detector, run in a process of their own that ends with the first failure."""

import os
import signal
import sys
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import Phase, is_hypothesis_test, settings

from tests.ablation.ablations import Ablation, ablate

TESTS = Path(__file__).parents[1] / "detectors"
CONFORMANCE = TESTS / "test_conformance.py"
SECONDS_MAXIMUM = 900
# Only the failure's name is asked for, so nothing is spent on explaining it.
OPTIONS = ("-x", "--assert=plain", "--tb=no", "-p", "no:cacheprovider")

# A property that fails has said enough: its smallest example is not looked for.
settings.register_profile(
    "ablation", derandomize=True, deadline=None, database=None, phases=(Phase.explicit, Phase.generate)
)


def own_tests(detector) -> list[Path]:
    """Every file of the rooms' tests that imports the detector's module."""
    module = f"from {type(detector).__module__} import "
    return [path for path in sorted(TESTS.glob("*/test_*.py")) if module in path.read_text("utf-8")]


@dataclass(eq=False)
class Witness:
    """A pytest plugin. Of the conformance suite it keeps the detector's own cases; of a threshold no property is
    asked, as those here say that cuts change nothing, whatever the threshold.
    """

    detector: str
    forgets: bool
    failed: str | None = None

    def pytest_configure(self, config) -> None:
        config.addinivalue_line("markers", "xdist_group: which tests one worker takes; here there are no workers")

    def pytest_collection_modifyitems(self, items) -> None:
        own = [item for item in items if item.path != CONFORMANCE or item.name.endswith(f"[{self.detector}]")]
        items[:] = [item for item in own if self.forgets or not is_hypothesis_test(item.obj)]

    def pytest_runtest_logreport(self, report) -> None:
        self.note(report.nodeid, report)

    def pytest_collectreport(self, report) -> None:
        self.note(f"{report.nodeid} (when it was collected)", report)

    def note(self, name, report) -> None:
        if report.failed and self.failed is None:
            self.failed = name


def first_failure(detector, files: Iterable[Path], ablation: Ablation | None) -> str | None:
    """The name of the first test that fails. Nothing of this process changes."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(SECONDS_MAXIMUM)
            os.dup2(os.open(os.devnull, os.O_RDWR), sys.stdout.fileno())
            os.write(write, (_tried(detector, files, ablation) or "").encode())
            code = 0
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(code)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        failed = pipe.read().decode()
    if (code := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])) != 0:
        raise RuntimeError(f"the tests of {detector.name} ended with {code} and named none: run them by themselves")
    return failed or None


def _tried(detector, files, ablation) -> str | None:
    os.environ |= {"HYPOTHESIS_PROFILE": "ablation", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    if ablation is not None:
        ablate(detector, ablation)
    witness = Witness(detector.name, forgets=ablation is None or ablation.forgets is not None)
    pytest.main([*OPTIONS, *map(str, files)], plugins=[witness])
    return witness.failed
