"""A counter that stands still though the rest of its source says that it must count."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

import dataframely as dy
import polars as pl

from detectors.contract import NO_FINDINGS, Context, Detection, evidence, findings_frame, ordered
from detectors.silence import seconds
from detectors.stats.adjacent import within
from detectors.stats.grades import GRADE_COLUMNS, fold, graded_levels
from detectors.telemetry.counter_rows import (
    GRID_SECONDS,
    KEYS,
    Walked,
    beside_earlier,
    entities_apart,
    kept,
    of_kind,
    thinned_tables,
)
from schemas.columns import UTC_MICROSECONDS
from schemas.fabric import FabricPort
from schemas.gpu import Gpu
from schemas.tables import TABLE_BY_SCHEMA, Table
from schemas.topology import Topology

SENT, RECEIVED = "transmit_bytes_total", "receive_bytes_total"
ENERGY, CORRECTED = "energy_joules_total", "fec_corrected_total"
PACKETS = {SENT: "transmit_packets_total", RECEIVED: "receive_packets_total"}
FAR = {SENT: RECEIVED, RECEIVED: SENT}
# What is judged, and what else is remembered to judge it by.
JUDGED: Mapping[type[dy.Schema], tuple[str, ...]] = {Gpu: (ENERGY,), FabricPort: (SENT, RECEIVED, CORRECTED)}
BESIDE: Mapping[type[dy.Schema], tuple[str, ...]] = {Gpu: ("power_watts",), FabricPort: tuple(PACKETS.values())}
NOW: Mapping[type[dy.Schema], tuple[str, ...]] = {
    Gpu: (), FabricPort: ("raw_bit_error_rate", "rate_gigabits_per_second", "state")
}  # fmt: skip
REMEMBERED = tuple(name for schema in JUDGED for name in (*JUDGED[schema], *BESIDE[schema]))
COUNTED = tuple(name for names in JUDGED.values() for name in names)
LEVEL, ENTITY = range(2)  # kinds of rows of the state, in its order
BETWEEN = "\x1f"  # between the parts of an entity's name
NO_SAMPLES = pl.DataFrame(
    schema={"entity": pl.String(), "time": UTC_MICROSECONDS, "grade": pl.Int64(), "value": pl.Float64()}
)


@dataclass(frozen=True, kw_only=True)
class StuckCounter:
    """One counter of a source stands still, and physics or traffic says that it must count.

    What fails: a driver or firmware that no longer updates one of its counters, an agent that reads one of its paths
    in vain and repeats itself. Rates from it read zero, which looks like peace. All values that stand still together
    are another fault (telemetry.frozen); a counter at its top is telemetry.saturated.
    Formula: value = the value before, while it must count, in all samples over max(for_seconds, for_intervals *
    interval), after it had been seen to count. It must count:
    - energy of a GPU: at power_minimum_watts or more, with a power reading that is not the one before;
    - bytes of a port: when another counter of it counts, and its packets of that direction have grown by
      packets_minimum or the far end of its cable has counted bytes_minimum of the other direction: what one end sends
      the other receives;
    - corrected codewords: on an active link whose raw error rate makes corrections_minimum wrong bits a sample, and
      whose bytes grow.
    A sample in which it need not count says nothing; ends when it counts. Rows are looked at every ten seconds.
    Defaults: 60 s or four intervals, as silence (design.md section 2). 50 W is half of an idle H100 (domain.md 4.1);
    1000 packets, 1e6 bytes and 1000 bits are far above one that strays (assumptions).
    Entity: "table:source", one statement a source however many of its counters stand; the code names the counter.
    Cannot see: a counter that never counted; one end of a cable whose other end is not watched, without packets; error
    counters, which stand still on healthy hardware.
    """

    for_seconds: float = 60.0
    for_intervals: float = 4.0
    power_minimum_watts: float = 50.0
    packets_minimum: float = 1000.0
    bytes_minimum: float = 1e6
    corrections_minimum: float = 1000.0

    name: ClassVar[str] = "telemetry.stuck_counter"
    reads: ClassVar[tuple[type[dy.Schema], ...]] = tuple(JUDGED)
    # kind LEVEL: GRADE_COLUMNS of counters that have ever stood still so. ENTITY: of each GPU and port the last
    # values, which counters have been seen to count, and by how much its bytes grew in its last sample.
    keeps: ClassVar[pl.Schema] = pl.Schema(
        {
            "kind": pl.Int8(), "table": pl.String(), **GRADE_COLUMNS, "source": pl.String(), "unit": pl.Int64(),
            "time": UTC_MICROSECONDS, "since": UTC_MICROSECONDS, **dict.fromkeys(REMEMBERED, pl.Float64()),
            **{f"{name}_counts": pl.Boolean() for name in COUNTED},
            **{f"{name}_grown": pl.Float64() for name in FAR},
        }
    )  # fmt: skip

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        fresh = thinned_tables(tables, JUDGED, context)
        if all(rows.is_empty() for rows in fresh.values()):
            return Detection(ordered(), state)
        levels, entities = entities_apart(state, ENTITY)
        said: list[pl.DataFrame] = []
        stuck, entities_after = [pl.DataFrame(schema=self.keeps)], list[pl.DataFrame]()
        for schema in JUDGED:
            table, rows = TABLE_BY_SCHEMA[schema], fresh[schema]
            interval = context.interval_seconds_of(table)
            before = entities.get(table.name, self.keeps.to_frame())
            held = levels.filter(pl.col("table") == table.name).select(GRADE_COLUMNS.names())
            if not rows.is_empty():
                beside = _beside(rows, before, table, context)
                walked = _walked(beside.rows, schema)
                if table.schema is FabricPort:
                    walked = self._with_far_end(walked, before, context.topology, interval)
                limit_seconds = max(self.for_seconds, self.for_intervals * interval)
                samples = self._samples(walked, held, table)
                changes, held_after = graded_levels(samples, held, for_seconds=limit_seconds)
                said.append(self._findings(changes, held, limit_seconds))
                held, before = held_after, kept(before, beside.with_lasts(walked, _flags(schema)), ENTITY, table)
            stuck.append(of_kind(held, LEVEL, table))
            entities_after.append(before)
        # Each part is in its own order already: to sort the whole would cost more than all the rest.
        few = pl.concat(stuck, how="diagonal").select(self.keeps.names())
        return Detection(ordered(*said), pl.concat([few, *entities_after]))

    def _must(self, name: str) -> pl.Expr:
        """Whether the counter must have counted since the row before."""
        if name == ENERGY:
            alive = pl.col("power_watts") != pl.col("power_watts_before")
            return alive & (pl.col("power_watts") >= self.power_minimum_watts)
        if name == CORRECTED:
            elapsed = pl.col("elapsed_seconds") * pl.col("rate_gigabits_per_second") * 1e9
            wrong = pl.col("raw_bit_error_rate") * elapsed >= self.corrections_minimum
            busy = (pl.col(f"{SENT}_grown") > 0) | (pl.col(f"{RECEIVED}_grown") > 0)
            return (pl.col("state") == "active") & wrong & busy
        packets = PACKETS[name]
        seen = pl.col(packets) - pl.col(f"{packets}_before") >= self.packets_minimum
        known = pl.col(f"{packets}_before") >= 0
        far = pl.col(f"far_{name}_grown") >= self.bytes_minimum
        alive = pl.any_horizontal(_grew(other) for other in (*FAR, *PACKETS.values(), CORRECTED) if other != name)
        return alive & ((seen & known).fill_null(value=False) | far.fill_null(value=False))

    def _with_far_end(
        self, walked: pl.DataFrame, before: pl.DataFrame, topology: Topology, interval_seconds: float
    ) -> pl.DataFrame:
        """Rows with what the far end of the cable has counted in its last sample, where bytes stand still."""
        grown = [f"{name}_grown" for name in FAR]
        still = pl.any_horizontal(_still(name) & pl.col(f"{name}_counts") for name in FAR)
        asked = walked.filter(still.fill_null(value=False)).select("source", "unit", "time")
        counting = max(float(rows[name].max() or 0.0) for rows in (before, walked) for name in grown)  # type: ignore[arg-type]  # floats
        if asked.is_empty() or counting < self.bytes_minimum:
            return walked.with_columns(pl.lit(0.0).alias(f"far_{name}_grown") for name in FAR)
        links = topology.links.select("a", pl.col("a_port").cast(pl.Int64), "b", pl.col("b_port").cast(pl.Int64))
        ends = pl.concat([
            links.select(source="a", unit="a_port", far="b", far_unit="b_port"),
            links.select(source="b", unit="b_port", far="a", far_unit="a_port"),
        ]).drop_nulls()  # fmt: skip
        asked = asked.join(ends, on=KEYS)
        timeline = pl.concat([
            rows.select("time", *grown, far="source", far_unit="unit").join(asked, on=["far", "far_unit"], how="semi")
            for rows in (before, walked)
        ]).sort("time")  # fmt: skip
        found = asked.sort("time").join_asof(
            timeline, on="time", by=["far", "far_unit"], check_sortedness=False,
            tolerance=timedelta(seconds=2 * max(interval_seconds, GRID_SECONDS)),
        )  # fmt: skip
        far = found.select("source", "unit", "time", *(
            pl.col(f"{other}_grown").alias(f"far_{name}_grown") for name, other in FAR.items()
        ))  # fmt: skip
        far = far.unique(["source", "unit", "time"], keep="first")
        return walked.join(far, on=["source", "unit", "time"], how="left", maintain_order="left")

    def _samples(self, walked: pl.DataFrame, held: pl.DataFrame, table: Table) -> pl.DataFrame:
        """Samples of the counters that stand still in these rows or have before: entity is the counter of a unit."""
        names = JUDGED[table.schema]
        stuck = {
            name: (_still(name) & pl.col(f"{name}_counts") & self._must(name)).fill_null(value=False) for name in names
        }
        stands = walked.select(stuck[name].alias(name) for name in names)
        if held.is_empty() and not any(stands[name].any() for name in names):
            return NO_SAMPLES
        found = []
        for name in names:
            grade = pl.when(_grew(name)).then(0).when(stands[name]).then(1)
            graded = walked.select(
                "source", "unit", "time", grade=grade.cast(pl.Int64), value=pl.col(name)
            ).drop_nulls("grade")  # fmt: skip
            words = held["entity"].str.split(BETWEEN).list
            known = pl.DataFrame({"source": words.get(1), "unit": words.get(2).cast(pl.Int64), "name": words.get(3)})
            known = known.filter(name=name).select("source", "unit")
            concerned = pl.concat([known, graded.filter(grade=1).select("source", "unit")]).unique()
            entity = pl.concat_str(
                pl.lit(table.name), "source", pl.col("unit").cast(pl.String), pl.lit(name), separator=BETWEEN
            )
            found.append(
                graded.join(concerned, on=KEYS, how="semi", maintain_order="left")
                .select(entity.alias("entity"), "time", "grade", "value")
            )  # fmt: skip
        return pl.concat(found).sort("entity", "time")

    def _findings(self, changes: pl.DataFrame, held: pl.DataFrame, limit_seconds: float) -> pl.DataFrame:
        if changes.is_empty():
            return NO_FINDINGS
        wholes = fold(_with_whole(changes), _with_whole(held.filter("ticket_active")))
        said = wholes.with_columns(unit=_part(2), counter=_part(3)).with_columns(
            evidence("unit", "counter", "value"), code="counter",
            score=seconds(pl.col("time") - pl.col("first_bad_at")), threshold=pl.lit(limit_seconds),
            action=pl.when("active").then(pl.lit("open_ticket")),
        )  # fmt: skip
        return findings_frame(said, self.name, "counter_stuck", "source")


def _beside(rows: pl.DataFrame, before: pl.DataFrame, table: Table, context: Context) -> Walked:
    names = (*JUDGED[table.schema], *BESIDE[table.schema])
    return beside_earlier(
        rows, before, table, context, names=names, held=_flags(table.schema), as_they_are=NOW[table.schema]
    )


def _walked(walked: pl.DataFrame, schema: type[dy.Schema]) -> pl.DataFrame:
    """Rows with which counters have been seen to count by then, and by how much bytes grew since the row before."""
    counts = {
        name: pl.col(f"{name}_counts").fill_null(value=False)
        | within(pl.when(_grew(name)).then(pl.lit(value=True)), "place").fill_null(value=False)
        for name in JUDGED[schema]
    }
    walked = walked.with_columns(**{f"{name}_counts": seen for name, seen in counts.items()})
    if schema is not FabricPort:
        return walked
    return walked.with_columns(
        pl.when(_grew(name)).then(pl.col(name) - pl.col(f"{name}_before")).otherwise(0.0).clip(0.0)
        .alias(f"{name}_grown") for name in FAR
    )  # fmt: skip


def _flags(schema: type[dy.Schema]) -> list[str]:
    """What is kept of an entity beside its values: which counters count, and by how much its bytes grew."""
    counts = [f"{name}_counts" for name in JUDGED[schema]]
    return [*counts, *(f"{name}_grown" for name in FAR)] if schema is FabricPort else counts


def _grew(name: str) -> pl.Expr:
    """The counter counted, or began anew."""
    known = pl.col(f"{name}_before") >= 0
    return (known & (pl.col(name) != pl.col(f"{name}_before"))).fill_null(value=False)


def _still(name: str) -> pl.Expr:
    return (pl.col(name) == pl.col(f"{name}_before")).fill_null(value=False)


def _with_whole(parts: pl.DataFrame) -> pl.DataFrame:
    words = pl.col("entity").str.split(BETWEEN)
    return parts.with_columns(whole=pl.concat_str(words.list.get(0), words.list.get(1), separator=":"))


def _part(number: int) -> pl.Expr:
    return pl.col("part").str.split(BETWEEN).list.get(number)
