"""How property tests draw their examples, and what no test leaves to the next."""

import os
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

# The same examples on every run, so that a red run speaks of the change it ran for; HYPOTHESIS_PROFILE=explore looks
# for new ones.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


# Modules whose tests share stores that take seconds to make: one worker takes all tests of such a module.
TOGETHER = (
    "test_cli", "test_cli_recovery", "test_backtest", "test_dagster_assets", "test_dagster_definitions",
    "test_dagster_replays", "test_dagster_schedules", "test_models", "test_outside_events", "test_report",
    "test_scoring", "test_verify", "test_bundle",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.stem in TOGETHER:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """The command line writes its log to what is standard error when it begins, and a test's own is closed after it."""
    yield
    structlog.reset_defaults()
