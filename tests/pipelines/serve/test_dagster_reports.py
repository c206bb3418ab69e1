"""What serve takes in appears in Dagster under the assets of a scheduled run."""

import dagster as dg

from pipelines.assets.ingest import INTAKES, TELEMETRY
from pipelines.serve.dagster_child import Report
from pipelines.serve.dagster_reports import materialisations

REPORT = Report(
    stream="kafka", rows={"gpu": 24_576}, findings=3, incidents=1, quarantined=2, late=0, behind_seconds=1.2,
    newest=1_772_442_000.0, lag_messages={"events": 0, "metrics": 40},
)  # fmt: skip


def test_every_asset_of_the_ingest_is_materialised() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        for event in materialisations(REPORT):
            instance.report_runless_asset_event(event)
        known = {key.to_user_string() for key in instance.all_asset_keys()}
        assert known == {*TELEMETRY, *INTAKES, "findings", "incidents", "actions"}
        event = instance.get_latest_materialization_event(dg.AssetKey("gpu"))
        assert event is not None
        assert event.asset_materialization is not None
        metadata = event.asset_materialization.metadata
    assert (metadata["rows_taken"].value, metadata["lag_messages"].value, metadata["stream"].value) == (
        24_576, 40, "kafka",
    )  # fmt: skip
