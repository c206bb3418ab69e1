"""Simulated streams for the detector tests, each made once a session and only when asked for."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

import polars as pl

from detectors.contract import Context, Detection, Detector, ordered
from replay.scenario import Expectation, Scenario, load_scenario, parse_scenario, scenario_names
from replay.simulate import labels, simulate, topology_of
from schemas.admission import admit
from schemas.tables import INTAKE_TABLES, TABLE_BY_NAME, TABLE_BY_SCHEMA, TABLES, Table, empty
from schemas.topology import Topology

OWN_SCENARIOS = Path(__file__).parents[1] / "data" / "scenarios"
EVERY_TABLE = (*TABLES, *INTAKE_TABLES)
LONG = ("healthy", "incident_day")
OUT_OF_ORDER = ("clock_slow",)  # rows in order of arrival, which only the engine puts in order of time


@dataclass(frozen=True, kw_only=True, eq=False)
class Stream:
    """Rows of a whole scenario by table name, and what is needed to give them to a detector in pieces."""

    tables: Mapping[str, pl.DataFrame]
    topology: Topology
    began: datetime
    ends: datetime
    intervals: Mapping[str, float]
    expects: tuple[Expectation, ...] = ()
    onsets: Mapping[str, datetime] | None = None

    def rows(self, table: Table, since: datetime, until: datetime) -> pl.DataFrame:
        frame = self.tables[table.name]
        return frame.filter((pl.col(table.time) >= since) & (pl.col(table.time) < until))

    def until(self, ends: datetime) -> "Stream":
        tables = {table.name: self.rows(table, self.began, ends) for table in EVERY_TABLE}
        return replace(self, tables=tables, ends=ends)

    def since(self, begins: datetime) -> "Stream":
        began = max(begins, self.began)
        tables = {table.name: self.rows(table, began, self.ends) for table in EVERY_TABLE}
        return replace(self, tables=tables, began=began)

    def read_by(self, detector: Detector) -> "Stream":
        """Without the rows of tables that the detector does not read."""
        read = {TABLE_BY_SCHEMA[schema].name for schema in detector.reads}
        tables = {table.name: self.tables[table.name] if table.name in read else empty(table) for table in EVERY_TABLE}
        return replace(self, tables=tables)

    def step(self, detector: Detector, state: pl.DataFrame, since: datetime, until: datetime) -> Detection:
        """One batch: the rows of [since, until) with now = until."""
        context = Context(now=until, began=self.began, topology=self.topology, intervals_seconds=self.intervals)
        batch = {schema: self.rows(TABLE_BY_SCHEMA[schema], since, until) for schema in detector.reads}
        return detector.detect(batch, state, context)

    def run(self, detector: Detector, cuts: tuple[datetime, ...] = ()) -> Detection:
        """The whole stream, cut at these instants; findings of all batches together."""
        state, findings, since = pl.DataFrame(schema=detector.keeps), [], self.began
        for until in (*sorted(cuts), self.ends):
            detection = self.step(detector, state, since, until)
            state, since = detection.state, until
            findings.append(detection.findings)
        return Detection(ordered(*findings), state)

    def times(self, detector: Detector) -> list[datetime]:
        """Distinct sample times of what the detector reads."""
        read = (TABLE_BY_SCHEMA[schema] for schema in detector.reads)
        return sorted({time for table in read for time in self.tables[table.name][table.time].unique()})


def scenario_of(name: str) -> Scenario:
    """A scenario of the tests or of the project."""
    own = OWN_SCENARIOS / f"{name}.toml"
    return parse_scenario(own.read_text("utf-8"), str(own)) if own.is_file() else load_scenario(name)


@cache
def stream_of(name: str, seconds: int | None = None) -> Stream:
    """The scenario's stream, cut short after so many seconds."""
    scenario = scenario_of(name)
    stream = _simulated(replace(scenario, duration_seconds=seconds or scenario.duration_seconds))
    return stepped_back(stream) if name == "clock_step" else stream


def stepped_back(stream: Stream) -> Stream:
    """The clock of n00001 goes back by 5 s at second 120: its GPU rows are late until they are past what it had said.

    Simulated windows are in order of event time, in which nothing can be late.
    """
    rows = stream.tables["gpu"]
    stepped = (pl.col("node") == "n00001") & (pl.col("time") >= stream.began + timedelta(seconds=120))
    newest = rows.filter((pl.col("node") == "n00001") & ~stepped)["time"].max()
    rows = rows.with_columns(time=pl.when(stepped).then(pl.col("time") - timedelta(seconds=5)).otherwise("time"))
    moved = rows["time"] != stream.tables["gpu"]["time"]
    late = moved & (pl.lit(newest) - pl.col("time") > timedelta(seconds=1))
    put_aside = rows.filter(late).select(
        "time", table=pl.lit("gpu"), source="node",
        behind_seconds=(pl.lit(newest) - pl.col("time")).dt.total_microseconds() / 1e6,
        row=pl.struct("gpu").struct.json_encode(),
    )  # fmt: skip
    return replace(stream, tables={**stream.tables, "gpu": rows.filter(~late).sort("time"), "late": put_aside})


def _simulated(scenario: Scenario) -> Stream:
    topology = topology_of(scenario)
    (window,) = simulate(scenario, topology, window_seconds=scenario.duration_seconds)
    truth = labels(scenario, topology)
    admitted = {name: admit(TABLE_BY_NAME[name], rows) for name, rows in window.tables.items()}
    put_aside = {table.name: empty(table) for table in INTAKE_TABLES}
    put_aside["quarantine"] = pl.concat([put_aside["quarantine"], *(each.quarantined for each in admitted.values())])
    return Stream(
        tables={**{name: each.rows for name, each in admitted.items()}, **put_aside},
        topology=topology,
        began=scenario.starts_at,
        ends=scenario.starts_at + timedelta(seconds=scenario.duration_seconds),
        intervals=scenario.intervals,
        expects=scenario.expects,
        onsets={root: row["starts_at"] for row in truth.iter_rows(named=True) for root in row["roots"]},
    )


def short_scenarios() -> tuple[str, ...]:
    """Every scenario of the project and of the tests that one can run in a second or two, but those of history and
    those out of order.
    """
    own = (path.stem for path in sorted(OWN_SCENARIOS.glob("*.toml")))
    return (*(name for name in scenario_names() if name not in (*LONG, *OUT_OF_ORDER) and "/" not in name), *own)
