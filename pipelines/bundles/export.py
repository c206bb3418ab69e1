"""From the stores to a bundle: the telemetry around an incident, and what was decided and said at the time."""

import platform
import sys
from datetime import datetime, timedelta
from importlib.metadata import version

import polars as pl

from pipelines import outside_events
from pipelines.bundles.bundle import Bundle, Manifest, Saying
from pipelines.bundles.slice import Slice, involved_nodes, slice_of
from pipelines.operations_store import OperationsStore
from pipelines.recovery.ledger import Ledger
from pipelines.settings import Settings
from pipelines.sources.contract import SourceError
from pipelines.telemetry_store import TelemetryStore
from schemas.incident import Incident
from schemas.tables import TABLES, Table
from schemas.topology import Topology

# A GPU that is slow for a reason is slow in its job too: job.straggler compares it with all ranks.
AGAINST_THE_JOB = frozenset(
    {"gpu_straggler", "gpu_hang", "job_hang", "checkpoint_stale", "gpu_power_brake", "gpu_thermal_throttle", "gpu_pcie"}
)
COLLEAGUES_MAXIMUM = 256  # nodes; of a larger job the bundle holds the part around the incident


def export(
    incident: Incident, settings: Settings, telemetry: TelemetryStore, operations: OperationsStore, now: datetime
) -> Bundle:
    """The incident's bundle. Raises SourceError when the store no longer holds its time."""
    chosen = settings.bundles
    begin = incident.starts_at - timedelta(seconds=chosen.before_seconds)
    end = min((incident.ends_at or now) + timedelta(seconds=chosen.after_seconds), now)
    cluster = telemetry.cluster(begin, end)
    if cluster is None:
        raise SourceError(f"{telemetry.path}: nothing is stored of the time of {incident.id}")
    end = min(end, cluster.until)
    part = slice_of(incident, cluster.topology, _colleagues(telemetry, incident, cluster.topology, begin, end))
    telemetered = [table for table in TABLES if table is not outside_events.TABLE]
    tables = {table.name: _rows(telemetry, table, part, begin, end) for table in telemetered}
    if all(frame.is_empty() for frame in tables.values()):
        raise SourceError(f"{telemetry.path}: no telemetry of {begin:%Y-%m-%d %H:%M:%S} to {end:%H:%M:%S} is left")
    earliest = min(frame[table.time].min() for table in telemetered if not (frame := tables[table.name]).is_empty())  # type: ignore[type-var]  # times of rows that are there
    assert isinstance(earliest, datetime)
    lags = telemetry.lags(begin, end)
    events = outside_events.stored(telemetry, begin - outside_events.TOUCHING_BEFORE, end)
    tables["outside_event"] = outside_events.belonging(events, incident, cluster.topology, end, lags)
    near = tuple(
        one for one in operations.incidents(limit=None, since=begin)
        if one.id == incident.id or (one.detected_at < end and _shares(one, part))
    )  # fmt: skip
    manifest = Manifest(
        incident=incident.id, starts_at=max(begin, earliest), ends_at=end, name=cluster.topology.name,
        gpus_per_node=cluster.topology.gpus_per_node, intervals=dict(cluster.intervals_seconds),
        settings=settings.model_dump(mode="json", include={"detectors", "recovery"}), versions=versions(),
        sliced=bool(part.names), late_rows=telemetry.window_of("late", begin, end).height,
        lags={node: lag.total_seconds() for node, lag in lags.items() if node in part.topology.node_rows},
    )  # fmt: skip
    actions = Ledger(operations).actions(limit=None)
    return Bundle(
        manifest=manifest, topology=part.topology, tables=tables, incidents=near,
        findings=telemetry.window_of("findings", begin, end), remarks=_remarks(operations, incident),
        actions=tuple(record for record in actions if record.request.incident in {one.id for one in near}),
    )  # fmt: skip


def _colleagues(
    telemetry: TelemetryStore, incident: Incident, topology: Topology, begin: datetime, end: datetime
) -> tuple[str, ...]:
    """Nodes of the same jobs, where the incident was judged against them; none of a job that is too large."""
    if incident.cause not in AGAINST_THE_JOB:
        return ()
    found = telemetry.query(
        "select distinct node from heartbeat where time >= $begin and time < $end and job in (select distinct job from "
        "heartbeat where time >= $begin and time < $end and (node in (select unnest($nodes)) or job in "
        "(select unnest($roots)))) order by node",
        {"begin": begin, "end": end, "nodes": list(involved_nodes(incident, topology)), "roots": list(incident.roots)},
    )["node"].to_list()
    return tuple(found) if len(found) <= COLLEAGUES_MAXIMUM else ()


def versions() -> dict[str, str]:
    """Of everything that could make the same rows judge differently."""
    return {
        "python": platform.python_version(), "platform": f"{sys.platform}-{platform.machine()}",
        **{name: version(name) for name in ("hotspare", "polars", "numpy", "scikit-learn")},
    }  # fmt: skip


def _rows(telemetry: TelemetryStore, table: Table, part: Slice, begin: datetime, end: datetime) -> pl.DataFrame:
    wanted = part.wanted(table)
    where = None if wanted is None else (table.source, wanted)
    return telemetry.window_of(table.name, begin, end, column=table.time, where=where)


def _shares(incident: Incident, part: Slice) -> bool:
    """Whether its root lies in the slice, or the slice is all there is."""
    if not part.names:
        return True
    inside = {name for names in part.names.values() for name in names}
    return any(root in inside or root.partition("/")[0] in inside for root in incident.roots)


def _remarks(operations: OperationsStore, incident: Incident) -> tuple[Saying, ...]:
    """What people said about the incident, and their verdicts on its actions."""
    ledger = Ledger(operations)
    asked = {one.request.id: one.request for one in ledger.actions(incident=incident.id, limit=None)}
    verdicts = [
        Saying(at=one.at, by=one.by, kind=one.verdict,
               text=f"{asked[action].kind} of {asked[action].target}{one.comment and f': {one.comment}'}")
        for action, said in ledger.approvals(asked).items() for one in said
    ]  # fmt: skip
    said = [Saying(at=one.at, by=one.by, kind=one.kind, text=one.text) for one in operations.remarks(incident.id)]
    return tuple(sorted([*said, *verdicts], key=lambda one: (one.at, one.by, one.kind)))
