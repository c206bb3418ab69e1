"""What a detector is: a pure function from rows and state to findings and state, with its thresholds as fields.

The theorem that holds the design together: any cutting of the stream in time gives the same findings and the same
state. tests/detectors/test_conformance.py runs it, and more, over the whole catalogue.

How a detector keeps it: rows arrive complete up to `context.now` (exclusive) and no row comes twice. What depends on
earlier rows is carried in the state frame, which holds for each entity what the last row left behind; the batch is
put behind it, expressions run `over` the entity, and only the batch's rows speak. What depends on rows that do not
come (silence) is judged at a deadline computed from the last row; it is met when it is before now, so that a row at
the deadline itself speaks first. Seconds are microseconds times 1e-6, never divided by 1e6: Polars divides a column
of one row by a scalar with another rounding than a longer one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

import dataframely as dy
import polars as pl

from schemas.finding import Finding
from schemas.tables import USUAL_INTERVALS_SECONDS, Table
from schemas.topology import Topology

FINDING_COLUMNS = pl.Schema({name: column.dtype for name, column in Finding.columns().items()})
# Made once: most steps of most detectors say nothing, and a frame of thirty columns costs as much as a join.
NO_FINDINGS = pl.DataFrame(schema=FINDING_COLUMNS)


class Once:
    """What several detectors make of the same rows, made once a step: `context.once(ordered_lanes, rows)`.

    function: pure. rows: the very frame that the step gives to every detector that reads the table. more: what was
    made once of the same rows, if the function needs it.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[Callable[..., pl.DataFrame], int], tuple[pl.DataFrame, pl.DataFrame]] = {}

    def __call__(self, function: Callable[..., pl.DataFrame], rows: pl.DataFrame, *more: pl.DataFrame) -> pl.DataFrame:
        # The rows are kept beside what was made of them, so that no other frame can have their id.
        key = (function, id(rows))
        if key not in self._made:
            self._made[key] = (rows, function(rows, *more))
        return self._made[key][1]


@dataclass(frozen=True, kw_only=True)
class Context:
    """now: the watermark; every row before it has arrived, none at or after it has been given.
    began: first instant of the stream. intervals_seconds: sampling interval of each table, as the source says.
    lags: how much later than others' the rows of a node come, where that is more than clocks and networks explain;
    below zero where they come earlier, as a clock is fast. once: see Once.
    """

    now: datetime
    began: datetime
    topology: Topology
    intervals_seconds: Mapping[str, float] = field(default_factory=lambda: USUAL_INTERVALS_SECONDS)
    lags: Mapping[str, timedelta] = field(default_factory=dict)
    once: Once = field(default_factory=Once, compare=False, repr=False)

    def interval_seconds_of(self, table: Table) -> float:
        """The table's sampling interval; its usual one where the source names none, 0 for a table of events."""
        return self.intervals_seconds.get(table.name, table.interval_seconds or 0.0)


@dataclass(frozen=True)
class Detection:
    """findings: FINDING_COLUMNS, in order of time. state: the detector's `keeps`."""

    findings: pl.DataFrame
    state: pl.DataFrame


class Detector(Protocol):
    """See the module. `detect` gets one frame per table in `reads` (empty ones too), rows in order of time."""

    @property
    def name(self) -> str: ...

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]: ...

    @property
    def keeps(self) -> pl.Schema: ...

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection: ...


def findings_frame(rows: pl.DataFrame, detector: str, cause: str, kind: str) -> pl.DataFrame:
    """Rows that carry the other finding columns become findings; columns they lack are null."""
    if rows.is_empty():
        return NO_FINDINGS
    said = {"detector": detector, "cause": cause, "kind": kind}
    columns = [
        pl.lit(said[name], dtype).alias(name) if name in said
        else pl.col(name).cast(dtype) if name in rows.columns
        else pl.lit(None, dtype).alias(name)
        for name, dtype in FINDING_COLUMNS.items()
    ]  # fmt: skip
    return rows.select(columns)


def ordered(*findings: pl.DataFrame) -> pl.DataFrame:
    """Findings in the one order that does not depend on how they were computed."""
    told = [rows for rows in findings if not rows.is_empty()]
    if not told:
        return NO_FINDINGS
    return pl.concat(told).sort("time", "cause", "kind", "entity", "code", "active", nulls_last=True)


def evidence(*columns: str) -> pl.Expr:
    """The named columns as one JSON object, under their own names with units last."""
    return pl.struct(*columns).struct.json_encode().alias("evidence")
