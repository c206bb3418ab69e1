"""Run by `hotspare serve`: reads reports from standard input and materialises the assets of the ingest in Dagster.

The same assets as a scheduled run makes, so that the UI tells the truth in both modes. Ends with its input.
"""

import sys
from collections.abc import Mapping
from typing import Any

import dagster as dg
import msgspec

from pipelines.assets.ingest import INTAKES, TELEMETRY
from pipelines.serve.dagster_child import Report


def main() -> None:
    with dg.DagsterInstance.get() as instance:
        for line in sys.stdin:
            for event in materialisations(msgspec.json.decode(line, type=Report)):
                instance.report_runless_asset_event(event)


def materialisations(said: Report) -> list[dg.AssetMaterialization]:
    """One for each asset of the ingest."""
    common: dict[str, Any] = {"stream": said.stream, "by": "hotspare serve", "lag_seconds": said.behind_seconds}
    if said.newest is not None:
        common["newest_event"] = dg.MetadataValue.timestamp(said.newest)
    common["lag_messages"] = sum(said.lag_messages.values())
    counts: dict[str, Mapping[str, int]] = {name: {"rows_taken": said.rows.get(name, 0)} for name in TELEMETRY}
    counts |= {name: {} for name in INTAKES}
    counts |= {"quarantine": {"rows_taken": said.quarantined}, "late": {"rows_taken": said.late}}
    counts |= {"findings": {"findings": said.findings}, "incidents": {"incidents": said.incidents}, "actions": {}}
    return [
        dg.AssetMaterialization(name, metadata={k: v for k, v in {**common, **count}.items() if v is not None})
        for name, count in counts.items()
    ]


if __name__ == "__main__":
    main()
