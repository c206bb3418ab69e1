"""The main job in one go: an incident day of 1,024 GPUs through the Dagster assets, in this process, into DuckDB."""

import logging
from collections.abc import Callable
from pathlib import Path

import dagster as dg

from pipelines.assets.ingest import IngestConfig, ingest
from pipelines.settings import Settings
from pipelines.sources.contract import SourceError
from pipelines.stream import Tally
from pipelines.workplace import Workplace
from replay.scenario import load_scenario

SCENARIO = "incident_day"
SILENT = {"console": {"config": {"log_level": "CRITICAL"}}}
TELEMETRY = Path("var/demo.duckdb")
OPERATIONS = Path("var/demo-operations.sqlite")


def span_seconds() -> float:
    """Cluster time that the demo covers."""
    return float(load_scenario(SCENARIO).duration_seconds)


def run_demo(settings: Settings, progress: Callable[[Tally], None] = lambda _: None) -> Tally:
    """Materialise every asset of the ingest from fresh stores. Raises SourceError with the one line of what failed."""
    for path in (TELEMETRY, OPERATIONS):
        _remove(path)
    store = settings.store.model_copy(update={"telemetry": TELEMETRY, "operations": str(OPERATIONS)})
    reached = [Tally()]

    def show(tally: Tally) -> None:
        reached[0] = tally
        progress(tally)

    place = Workplace(settings=settings.model_copy(update={"store": store}), progress=show)
    with dg.DagsterInstance.ephemeral() as instance:
        instance_log = logging.getLogger("dagster")
        level = instance_log.level
        instance_log.setLevel(logging.CRITICAL)  # the run's events would drown the tables that follow
        try:
            run = dg.materialize(
                [ingest], instance=instance, resources={"workplace": place}, raise_on_error=False,
                run_config=dg.RunConfig(ops={"ingest": IngestConfig(source=SCENARIO)}, loggers=SILENT),
            )  # fmt: skip
        finally:
            instance_log.setLevel(level)
    if not run.success:
        raise SourceError(_why(run))
    return reached[0]


def _why(run: dg.ExecuteInProcessResult) -> str:
    """What the failed step said. A refusal is one line already; a bug is raised as it is."""
    for event in run.filter_events(lambda event: event.is_step_failure):
        failure = event.step_failure_data
        if failure.user_failure_data is not None and failure.user_failure_data.description:
            return failure.user_failure_data.description
        raise RuntimeError(f"the demo's run failed: {failure.error_display_string}")
    raise RuntimeError("the demo's run failed before its first step")


def _remove(path: Path) -> None:
    """The file with what its database keeps beside it."""
    for beside in (path, *path.parent.glob(f"{path.name}-*"), path.with_name(f"{path.name}.wal")):
        beside.unlink(missing_ok=True)
