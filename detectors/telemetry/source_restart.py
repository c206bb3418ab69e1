"""A source that has begun anew: its counters stand near zero together."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar

import dataframely as dy
import polars as pl

from detectors.contract import NO_FINDINGS, Context, Detection, evidence, findings_frame, ordered
from detectors.telemetry.counter_rows import KEYS, beside_earlier, entities_apart, kept, of_kind, thinned_tables
from schemas.columns import UTC_MICROSECONDS
from schemas.fabric import FabricPort
from schemas.gpu import Gpu
from schemas.tables import TABLE_BY_SCHEMA, Table

COUNTERS: Mapping[type[dy.Schema], tuple[str, ...]] = {
    Gpu: ("energy_joules_total", "pcie_replay_total"),
    FabricPort: (
        "transmit_bytes_total", "receive_bytes_total", "transmit_wait_total", "fec_corrected_total",
        "seconds_since_clear",
    ),
}  # fmt: skip
NAMES = tuple(name for names in COUNTERS.values() for name in names)
RUN, FALL, ENTITY = range(3)  # kinds of rows of the state, in its order
RUN_COLUMNS = pl.Schema({"restarts": pl.Int64(), "began": UTC_MICROSECONDS, "last": UTC_MICROSECONDS})
WRAP_BITS = (32, 63, 64)
FALLEN = pl.Schema(
    {"source": pl.String(), "time": UTC_MICROSECONDS, "unit": pl.Int64(), "counters": pl.Int64()}
)  # fmt: skip
RESTARTED = pl.Schema(
    {"source": pl.String(), "time": UTC_MICROSECONDS, "entities": pl.Int64(), "counters": pl.Int64()}
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SourceRestart:
    """A source's counters begin again near zero: its exporter, driver, host or device has restarted, or was cleared.

    What it looks like: energy since driver load of all GPUs of a host, or bytes, waits and seconds since clear of all
    ports of a device, fall to almost nothing at once. Whoever takes differences reads that as a rate, and what was
    counted just before is lost; `schemas.counters.deltas` counts such a counter from zero, so no detector does.
    Formula: a counter has fallen when value <= near_zero_share * the value before, which was counter_minimum or more
    and not within a tenth of 2^32, 2^63 or 2^64 (that is a wrap). An entity (GPU, port) has begun anew when
    entity_share of its counters have fallen; the source when source_share of its entities, each counted once, have
    within together_seconds, with counters_minimum counters between them. A note, and with restarts_ticket of them,
    each at most apart_seconds after the one before, a ticket: something restarts in a loop. Ends apart_seconds after
    the last.
    Rows are looked at every ten seconds (counter_rows).
    Defaults: near_zero_share 0.3, so that one that restarts every minute is seen to do so by a row that comes up to
    15 s later; counter_minimum 10, entity_share 0.5, source_share 0.6, counters_minimum 3: one counter that is
    reset, one GPU, one port is less. together_seconds 30: ports are read one after another.
    apart_seconds 900: the kubelet waits at most 300 s between two tries (the others are assumptions).
    Entity: "table:source".
    Cannot see: an exporter whose counters live in hardware; a source whose counters were all small; a loop of less than
    about four samples, or of ten seconds. A source with one port that somebody clears looks the same.
    """

    near_zero_share: float = 0.3
    counter_minimum: float = 10.0
    counters_minimum: int = 3
    entity_share: float = 0.5
    source_share: float = 0.6
    together_seconds: float = 30.0
    restarts_ticket: int = 3
    apart_seconds: float = 900.0

    name: ClassVar[str] = "telemetry.source_restart"
    reads: ClassVar[tuple[type[dy.Schema], ...]] = tuple(COUNTERS)
    # kind RUN: restarts of a source close to each other. FALL: entities of a source that have begun anew lately.
    # ENTITY: the last counters of each GPU and port.
    keeps: ClassVar[pl.Schema] = pl.Schema(
        {
            "kind": pl.Int8(), "table": pl.String(), "entity": pl.String(), **RUN_COLUMNS, **FALLEN,
            "since": UTC_MICROSECONDS, **dict.fromkeys(NAMES, pl.Float64()),
        }
    )  # fmt: skip

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        fresh = thinned_tables(tables, COUNTERS, context)
        few, entities = entities_apart(state, ENTITY)
        if few.is_empty() and all(rows.is_empty() for rows in fresh.values()):
            return Detection(ordered(), state)
        restarts, pending, entities_after = [], [], []
        for schema, names in COUNTERS.items():
            table = TABLE_BY_SCHEMA[schema]
            known = entities.get(table.name, self.keeps.to_frame())
            falls = few.filter((pl.col("kind") == FALL) & (pl.col("table") == table.name)).select(FALLEN.names())
            if not fresh[schema].is_empty():
                walked = beside_earlier(fresh[schema], known, table, context, names=names)
                new, known = self._fallen(walked.rows, names), kept(known, walked.state, ENTITY, table)
                if not (new.is_empty() and falls.is_empty()):
                    anew, falls = self._restarts(pl.concat([falls, new]), known, table)
                    restarts.append(anew)
            falls = falls.filter(pl.col("time") + timedelta(seconds=self.together_seconds) >= context.now)
            pending.append(of_kind(falls.sort("source", "time", "unit"), FALL, table))
            entities_after.append(known)
        said, runs = self._levels(restarts, few, context.now)
        # Each part is in its own order already: to sort the whole would cost more than all the rest.
        few = pl.concat([runs, *pending], how="diagonal").select(
            pl.col(name).cast(dtype) for name, dtype in self.keeps.items()
        )
        return Detection(said, pl.concat([few, *entities_after]))

    def _fallen(self, walked: pl.DataFrame, names: tuple[str, ...]) -> pl.DataFrame:
        """FALLEN: the entities that have begun anew, and when."""
        big = {name: (pl.col(f"{name}_before") >= self.counter_minimum) & pl.col(name).is_not_null() for name in names}
        fell = [known & self._fell(name) for name, known in big.items()]
        anew = walked.select(
            *KEYS, "time", known=pl.sum_horizontal(*big.values()), counters=pl.sum_horizontal(*fell).cast(pl.Int64)
        ).filter((pl.col("counters") > 0) & (pl.col("counters") >= self.entity_share * pl.col("known")))
        return anew.select(pl.col(name).cast(dtype) for name, dtype in FALLEN.items())

    def _fell(self, name: str) -> pl.Expr:
        before = pl.col(f"{name}_before")
        wrapped = pl.any_horizontal(before.is_between(0.9 * 2.0**bits, 2.0**bits) for bits in WRAP_BITS)
        return ((pl.col(name) <= self.near_zero_share * before) & ~wrapped).fill_null(value=False)

    def _restarts(self, falls: pl.DataFrame, known: pl.DataFrame, table: Table) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Restarts of sources (RESTARTED, entity), and falls that may yet become one. Few, so a loop.

        An entity that has begun anew more than once counts once, as it did last.
        """
        some = known.join(falls.select("source").unique(), on="source", how="semi")
        since = {
            source: rows["since"].to_list() for (source,), rows in some.partition_by("source", as_dict=True).items()
        }
        together = timedelta(seconds=self.together_seconds)
        found: list[dict[str, Any]] = []
        lately: dict[str, dict[int, tuple[datetime, int]]] = {}
        instants = falls.group_by("source", "time").agg("unit", "counters").sort("source", "time")
        for source, time, units, fallen in instants.iter_rows():
            mine = {unit: fall for unit, fall in lately.get(source, {}).items() if time - fall[0] <= together}
            mine |= {unit: (time, counters) for unit, counters in zip(units, fallen, strict=True)}
            counters = sum(count for _, count in mine.values())
            there = sum(seen < time for seen in since[source])
            lately[source] = mine
            if counters >= self.counters_minimum and len(mine) >= self.source_share * there:
                found.append({"source": source, "time": time, "entities": len(mine), "counters": counters})
                lately[source] = {}
        waiting = [
            {"source": source, "time": time, "unit": unit, "counters": counters}
            for source, mine in lately.items()
            for unit, (time, counters) in mine.items()
        ]
        anew = pl.DataFrame(found, schema=RESTARTED)
        return anew.with_columns(entity=pl.format("{}:{}", pl.lit(table.name), "source")), pl.DataFrame(
            waiting, schema=FALLEN
        )

    def _levels(
        self, restarts: list[pl.DataFrame], few: pl.DataFrame, now: datetime
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Statements of the runs of restarts, and the runs that go on. Few, and each leans on the last: a loop."""
        apart = timedelta(seconds=self.apart_seconds)
        runs = {row.pop("entity"): row for row in few.filter(kind=RUN).select("entity", *RUN_COLUMNS).to_dicts()}
        if not runs and not restarts:
            return NO_FINDINGS, pl.DataFrame(schema=self.keeps)
        said: list[dict[str, Any]] = []

        def end(entity: str, run: Mapping[str, Any]) -> None:
            said.append({**run, "entity": entity, "time": run["last"] + apart, "active": False})

        anew = pl.concat(restarts).sort("time", "entity") if restarts else pl.DataFrame()
        for row in anew.iter_rows(named=True):
            run = runs.get(row["entity"])
            if run is not None and row["time"] > run["last"] + apart:
                end(row["entity"], run)
                run = None
            run = run or {"restarts": 0, "began": row["time"]}
            run = {**run, "restarts": run["restarts"] + 1, "last": row["time"]}
            runs[row["entity"]] = run
            if run["restarts"] in (1, self.restarts_ticket):
                said.append({**row, **run, "active": True})
        for entity, run in list(runs.items()):
            if run["last"] + apart < now:
                end(entity, runs.pop(entity))
        columns = {"entity": pl.String(), "active": pl.Boolean(), **RESTARTED, **RUN_COLUMNS}
        told = pl.DataFrame(said, schema=columns).with_columns(
            loop=pl.col("restarts") >= self.restarts_ticket, apart_seconds=self.apart_seconds
        )
        told = told.with_columns(
            evidence("restarts", "apart_seconds", "entities", "counters"), code=pl.lit("restarted"),
            severity=pl.when("loop").then(pl.lit("ticket")).otherwise(pl.lit("info")),
            score=pl.col("restarts").cast(pl.Float64()), threshold=pl.lit(float(self.restarts_ticket)),
            first_bad_at="began", action=pl.when(pl.col("active") & pl.col("loop")).then(pl.lit("open_ticket")),
        )  # fmt: skip
        kept = [{"entity": entity, **run, "kind": RUN} for entity, run in runs.items()]
        after = pl.DataFrame(kept, schema={"kind": pl.Int8(), "entity": pl.String(), **RUN_COLUMNS})
        none = pl.DataFrame(schema=self.keeps)
        return ordered(findings_frame(told, self.name, "source_restarted", "source")), pl.concat(
            [none, after.sort("entity")], how="diagonal"
        )
