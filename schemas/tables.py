"""The telemetry tables, read top to bottom: what they are keyed by, who sends them, how often, in which lane."""

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal

import dataframely as dy
import polars as pl

from schemas.coolant import ColdPlate, CoolantLoop, CoolantPump
from schemas.fabric import FabricPort, Optic
from schemas.fiber import OtdrEvent, OtdrTrace
from schemas.gpu import Gpu, GpuEvent
from schemas.hardware import HardwareSensor
from schemas.intake import Late, Quarantine
from schemas.job import Heartbeat, JobEvent, Maintenance
from schemas.outside_event import OutsideEvent
from schemas.power import Power


@dataclass(frozen=True, kw_only=True)
class Table:
    """One telemetry table.

    key: what identifies a row beside its time. source: the column naming who sends the rows (lateness and silence
    are judged per source). interval_seconds: usual sampling interval (domain.md 5.1, 5.4); None for events, whose
    silence means nothing. lane: events never queue behind metrics.
    senders: columns beside the source that tell apart who sends on their own, as the ranks of a host do; their order
    among each other says nothing about lateness. ahead: rows tell of times to come, in any order: none of them is late.
    """

    name: str
    schema: type[dy.Schema]
    time: str = "time"
    key: tuple[str, ...]
    source: str
    interval_seconds: float | None
    lane: Literal["events", "metrics"] = "metrics"
    senders: tuple[str, ...] = ()
    ahead: bool = False

    @property
    def sender(self) -> tuple[str, ...]:
        """Columns that tell who sent a row."""
        return (self.source, *self.senders)

    @cached_property
    def columns(self) -> pl.Schema:
        """Column names and types, in order."""
        return pl.Schema({name: column.dtype for name, column in self.schema.columns().items()})


TABLES: tuple[Table, ...] = (
    Table(name="gpu", schema=Gpu, key=("node", "gpu"), source="node", interval_seconds=1),
    Table(
        name="gpu_event",
        schema=GpuEvent,
        key=("node", "gpu", "pci", "kind", "code", "message"),
        source="node",
        interval_seconds=None,
        lane="events",
    ),
    Table(
        name="heartbeat",
        schema=Heartbeat,
        key=("node", "gpu", "job", "rank"),
        source="node",
        interval_seconds=1,
        lane="events",
        senders=("gpu",),
    ),
    Table(name="job_event", schema=JobEvent, key=("job", "kind"), source="job", interval_seconds=None, lane="events"),
    Table(
        name="maintenance",
        schema=Maintenance,
        time="starts_at",
        key=("kind", "id", "announced_at"),
        source="id",
        interval_seconds=None,
        lane="events",
        ahead=True,
    ),
    Table(
        name="outside_event",
        schema=OutsideEvent,
        key=("kind", "title", "id", "recorded_at"),
        source="kind",
        interval_seconds=None,
        lane="events",
        ahead=True,
    ),
    Table(name="fabric_port", schema=FabricPort, key=("device", "port"), source="device", interval_seconds=30),
    Table(name="optic", schema=Optic, key=("device", "port", "lane"), source="device", interval_seconds=60),
    Table(
        name="otdr_trace",
        schema=OtdrTrace,
        key=("cable", "fiber", "direction"),
        source="cable",
        interval_seconds=None,
    ),
    Table(
        name="otdr_event",
        schema=OtdrEvent,
        key=("cable", "fiber", "direction", "number"),
        source="cable",
        interval_seconds=None,
    ),
    Table(name="coolant_loop", schema=CoolantLoop, key=("cdu",), source="cdu", interval_seconds=1),
    Table(name="coolant_pump", schema=CoolantPump, key=("cdu", "pump"), source="cdu", interval_seconds=1),
    Table(name="cold_plate", schema=ColdPlate, key=("node", "gpu"), source="node", interval_seconds=1),
    Table(name="power", schema=Power, key=("pdu",), source="pdu", interval_seconds=1, lane="events"),
    Table(
        name="hardware_sensor",
        schema=HardwareSensor,
        key=("device", "sensor"),
        source="device",
        interval_seconds=60,
    ),
)

# What the door put aside. Nobody sends these; detectors may read them, for what they tell of a source.
INTAKE_TABLES: tuple[Table, ...] = (
    Table(name="late", schema=Late, key=("table", "source", "row"), source="source", interval_seconds=None),
    Table(
        name="quarantine",
        schema=Quarantine,
        key=("table", "source", "rule", "topic", "partition", "offset"),
        source="source",
        interval_seconds=None,
    ),
)

USUAL_INTERVALS_SECONDS: dict[str, float] = {
    table.name: table.interval_seconds for table in TABLES if table.interval_seconds is not None
}
TABLE_BY_NAME: dict[str, Table] = {table.name: table for table in TABLES}
TABLE_BY_SCHEMA: dict[type[dy.Schema], Table] = {table.schema: table for table in (*TABLES, *INTAKE_TABLES)}


@cache
def empty(table: Table) -> pl.DataFrame:
    """No rows, all columns."""
    return pl.DataFrame(schema=table.columns)
