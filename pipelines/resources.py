"""What Dagster hands to assets, checks and sensors: the workplace, made from hotspare.toml when a run begins."""

from pathlib import Path

import dagster as dg

from pipelines.settings import load_settings
from pipelines.workplace import Workplace

# Everything that opens the DuckDB file takes its turn here; dagster.yaml (pipelines.ui) lets one in at a time.
POOL = "telemetry_store"


@dg.resource(
    config_schema={
        "settings_file": dg.Field(
            str, default_value="", description="As `--settings`; empty for hotspare.toml in the working folder, if any."
        )
    },
    description="Settings, both stores and the shared loop.",
)
def workplace(context: dg.InitResourceContext) -> Workplace:
    chosen = context.resource_config["settings_file"]
    return Workplace(settings=load_settings(Path(chosen) if chosen else None))
