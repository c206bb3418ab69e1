"""Telemetry in, findings, incidents and actions out: one step, because one transaction holds it all."""

from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg
from pydantic import Field

from pipelines.assets.incident_tables import actions_metadata, findings_metadata, incidents_metadata
from pipelines.resources import POOL
from pipelines.store_status import TableStatus, findings_by_cause, table_status
from pipelines.stream import Tally
from pipelines.telemetry_schema import INTAKE
from pipelines.workplace import REFUSALS, SCHEDULED, Workplace
from schemas.tables import TABLES

TELEMETRY = tuple(table.name for table in TABLES)
AREAS: Mapping[str, str] = {
    "gpu": "GPU readings: temperature, power, clocks, memory errors, row remapping, PCIe, NVLink. One row a GPU.",
    "gpu_event": "What drivers said: XID, SXID, fallen off the bus.",
    "heartbeat": "Beats of the ranks of training jobs, with step times and checkpoints.",
    "job_event": "Jobs that start, stop, restart and save checkpoints.",
    "maintenance": "Planned work: what happens inside it is no loss.",
    "outside_event": "What was done to the cluster or around it: deploys, settings, firmware, works. It is not judged.",
    "fabric_port": "Counters, bit error rates and state of every switch and HCA port.",
    "optic": "Light levels, bias and temperature of optical modules, one row a lane.",
    "otdr_trace": "OTDR shots along optical fibres: the whole trace.",
    "otdr_event": "What an OTDR found along a fibre: connectors, splices, bends, the end.",
    "coolant_loop": "Temperatures, flow, pressures, level and leak state of each coolant loop.",
    "coolant_pump": "Speed and power of each coolant pump.",
    "hardware_sensor": "Temperatures, fans and supplies of the boxes, as their management controllers say.",
    "cold_plate": "Coolant temperatures, flow and valve of each GPU's cold plate.",
    "power": "Volts, amps, watts and breaker of each power domain.",
}
INTAKES: Mapping[str, str] = {
    "quarantine": "Rows and messages that broke a rule, as they came, with the rule's name.",
    "late": "Rows that came too far behind their source's newest: stored, counted, not judged.",
    "telemetry_health": "What admission did to each source in each batch: rows taken, late, quarantined.",
}


class IngestConfig(dg.Config):
    """What a run takes in. Starting one by hand is harmless: it takes what is new."""

    source: str = Field(
        default=SCHEDULED,
        description=(
            "Where from: `scheduled` (what the schedule takes, setting dagster.scheduled_source), `kafka`, "
            "`simulated` (the small live cluster), a scenario such as `incident_day`, or the path of a recording "
            "folder, a scenario .toml, or a file in any known format. Progress is kept per source: nothing is taken "
            "in twice."
        ),
    )


def _specs() -> Iterator[dg.AssetSpec]:
    for name in TELEMETRY:
        yield dg.AssetSpec(name, group_name="telemetry", description=AREAS[name], kinds={"duckdb"})
    for name, description in INTAKES.items():
        yield dg.AssetSpec(name, group_name="admission", description=description, kinds={"duckdb"})
    yield dg.AssetSpec(
        "findings", deps=TELEMETRY, group_name="diagnosis", kinds={"duckdb"},
        description="What detectors say: this entity is, or no longer is, in this bad state, and why.",
    )  # fmt: skip
    yield dg.AssetSpec(
        "incidents", deps=["findings"], group_name="response", kinds={"sqlite"},
        description="Findings of one cause folded into one incident, with its root, its members and its onset.",
    )  # fmt: skip
    yield dg.AssetSpec(
        "actions", deps=["incidents"], group_name="response", kinds={"sqlite"},
        description="What recovery did about incidents, would have done (dry-run), or refused, with the reason.",
    )  # fmt: skip


@dg.multi_asset(
    name="ingest",
    specs=tuple(_specs()),
    pool=POOL,
    description="Takes what is new from a source, judges it, and stores rows, findings and progress together.",
)
def ingest(
    context: dg.AssetExecutionContext, config: IngestConfig, workplace: dg.ResourceParam[Workplace]
) -> Iterator[dg.MaterializeResult[Any]]:
    """Reads, judges and stores through the shared loop; here is only the report about it."""
    try:
        source = workplace.source(config.source)
        tally = workplace.ingest(source, role="dagster")
        status = table_status(workplace.telemetry)
        causes = findings_by_cause(workplace.telemetry, tally.began, tally.now)
    except REFUSALS as refusal:
        raise dg.Failure(description=str(refusal), allow_retries=False) from None
    context.log.info(
        "%s: %d rows, %d findings, %d incidents, %d actions in %.1f s",
        source.stream, sum(tally.rows.values()), tally.findings, len(tally.incidents), len(tally.actions),
        tally.elapsed_seconds,
    )  # fmt: skip
    rates = _rates(source.stream, tally)
    for name in TELEMETRY:
        taken = {"rows_taken": tally.rows.get(name, 0)}
        yield dg.MaterializeResult(asset_key=name, metadata={**_stored(status[name], workplace), **taken, **rates})
    for name, taken_in in (("quarantine", tally.quarantined), ("late", tally.late), ("telemetry_health", None)):
        counted = {} if taken_in is None else {"rows_taken": taken_in}
        yield dg.MaterializeResult(asset_key=name, metadata={**_stored(status[name], workplace), **counted, **rates})
    found = {**_stored(status["findings"], workplace), **findings_metadata(tally, causes)}
    yield dg.MaterializeResult(asset_key="findings", metadata={**found, **rates})
    yield dg.MaterializeResult(asset_key="incidents", metadata={**incidents_metadata(tally), **rates})
    yield dg.MaterializeResult(asset_key="actions", metadata={**actions_metadata(tally), **rates})


def _stored(status: TableStatus, workplace: Workplace) -> dict[str, Any]:
    """Rows in all, and how far the newest event lies behind the clock."""
    metadata: dict[str, Any] = {"dagster/row_count": status.rows}
    if status.newest is not None:
        metadata["newest_event"] = dg.MetadataValue.timestamp(status.newest)
        metadata["lag_seconds"] = round((workplace.clock() - status.newest).total_seconds(), 1)
    return metadata


def _rates(stream: str, tally: Tally) -> dict[str, Any]:
    rows, seconds = sum(tally.rows.values()), tally.elapsed_seconds
    return {
        "stream": stream,
        "run_rows": rows,
        "run_seconds": round(seconds, 2),
        "run_rows_per_second": round(rows / seconds) if seconds else 0,
        "run_cluster_seconds": round(tally.stream_seconds, 1),
    }


assert {name for name, _ in INTAKE} == {"findings", *INTAKES}, "an intake table has no asset"
