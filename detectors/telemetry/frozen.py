"""A source whose values stand still while its rows go on: the exporter repeats itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import dataframely as dy
import polars as pl

from detectors.contract import Context, Detection, evidence, findings_frame, ordered
from detectors.levels import LEVEL_COLUMNS, levels
from detectors.silence import seconds
from detectors.stats.adjacent import begins, ends, together
from detectors.stats.sorted_state import located, merged, part
from schemas.columns import UTC_MICROSECONDS
from schemas.coolant import ColdPlate, CoolantLoop, CoolantPump
from schemas.fabric import FabricPort
from schemas.gpu import Gpu
from schemas.power import Power
from schemas.tables import TABLE_BY_SCHEMA, Table

# What moves by nature: measured, or counted all the time. Settings, states and rare errors may well stand still.
MOVING: Mapping[type[dy.Schema], tuple[str, ...]] = {
    Gpu: (
        "temperature_celsius", "memory_temperature_celsius", "power_watts", "sm_clock_megahertz",
        "utilization_percent", "energy_joules_total",
    ),
    FabricPort: (
        "transmit_bytes_total", "receive_bytes_total", "transmit_packets_total", "receive_packets_total",
        "fec_corrected_total", "raw_bit_error_rate",
    ),
    CoolantLoop: (
        "supply_celsius", "return_celsius", "facility_supply_celsius", "facility_return_celsius",
        "flow_liters_per_minute", "supply_pressure_kpa", "return_pressure_kpa",
    ),
    CoolantPump: ("speed_rpm", "power_watts"),
    ColdPlate: ("inlet_celsius", "outlet_celsius", "flow_liters_per_minute"),
    Power: ("volts", "volts_minimum", "amps", "watts"),
}  # fmt: skip
ENTITY, SOURCE = "entity", "source"


@dataclass(frozen=True, kw_only=True)
class FrozenTelemetry:
    """Values of a source stand still though rows go on: the newest numbers are old ones.

    What fails: an exporter that serves its cache after the host engine behind it has restarted or hung
    (gpu-monitoring-tools issue 188); a gauge that sticks (dcgm-exporter issue 500). It looks healthier than anything.
    Formula: no moving column of any entity of the source differs from the entity's row before, for at least
    max(frozen_seconds, frozen_intervals * interval of the table, usual_gaps * the source's own mean time between
    changes), while at least peer_share of the table's other sources changed within that time (or there are none).
    Onset = last change + interval. Ends with the next change.
    Defaults: 60 s or four intervals, the same as silence (design.md section 2). usual_gaps 20 and changes_minimum 10:
    a source of coarse numbers that moves every 10 s must stand for 200 s (an assumption). peer_share 0.5.
    Entity: "table:source". Rows that are all zero are not judged: a pump that stands and a dead feed say zero all the
    time, and that is news. Ports of hosts are left out, as an idle HCA counts nothing, and so are ports that are down.
    Cannot see: one sensor that sticks among others that move; a source that never moved; optics and heartbeats (a rank
    that stands still is job.*'s).
    """

    frozen_seconds: float = 60.0
    frozen_intervals: float = 4.0
    usual_gaps: float = 20.0
    changes_minimum: int = 10
    peer_share: float = 0.5

    @property
    def name(self) -> str:
        return "telemetry.frozen"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return tuple(MOVING)

    @property
    def keeps(self) -> pl.Schema:
        """One row per entity (fingerprint of its last row) and one per source (its changes, and its level).

        since: first row. changed_at: last change. changes: how many.
        """
        return pl.Schema(
            {
                "row": pl.String(), "table": pl.String(), **LEVEL_COLUMNS, "fingerprint": pl.UInt64(),
                "since": UTC_MICROSECONDS, "changed_at": UTC_MICROSECONDS, "changes": pl.Int64(),
            }
        )  # fmt: skip

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        found, kept = [], []
        for schema, columns in sorted(MOVING.items(), key=lambda each: TABLE_BY_SCHEMA[each[0]].name):
            table = TABLE_BY_SCHEMA[schema]
            before = part(state, "table", table.name)
            rows = _told(tables[schema], table, columns)
            if rows.is_empty():
                kept.append(before)
                continue
            interval = timedelta(seconds=context.interval_seconds_of(table))
            sources = part(before, "row", SOURCE)
            instants, prints = _instants(rows, part(before, "row", ENTITY).select("entity", "fingerprint"))
            changes, memory = _changes(instants, sources)
            samples = self._judged(changes, sources, interval)
            moves, after = levels(samples, sources.filter(pl.col("bad").is_not_null()).select(LEVEL_COLUMNS.names()))
            if not moves.is_empty():
                said = _statements(moves, table, interval)
                found.append(findings_frame(said, self.name, "telemetry_frozen", "source"))
            level = memory.join(after, on="entity", how="left", maintain_order="left")
            kept += [self._kept(table, ENTITY, prints), self._kept(table, SOURCE, level)]
        # In order of table, row and entity as they come, so that the next batch finds each part by bisection.
        return Detection(ordered(*found), pl.concat(kept, rechunk=True))

    def _kept(self, table: Table, row: str, known: pl.DataFrame) -> pl.DataFrame:
        said = {"row": row, "table": table.name}
        return known.select(
            pl.lit(said[name]).alias(name) if name in said
            else pl.col(name) if name in known.columns
            else pl.lit(None, dtype).alias(name)
            for name, dtype in self.keeps.items()
        )  # fmt: skip

    def _judged(self, changes: pl.DataFrame, before: pl.DataFrame, interval: timedelta) -> pl.DataFrame:
        """Samples of the levels: bad where a source stood too long while its peers moved, good where that ended."""
        limit = pl.lit(max(timedelta(seconds=self.frozen_seconds), self.frozen_intervals * interval))
        earlier = pl.col("changes") - pl.col("changed").cast(pl.Int64)
        mean_gap = (pl.col("stood_since") - pl.col("since")).dt.total_microseconds() // earlier.clip(1)
        usual = pl.duration(microseconds=(self.usual_gaps * mean_gap).round().cast(pl.Int64))
        rows = changes.with_columns(stood=pl.col("time") - pl.col("stood_since"), limit=pl.max_horizontal(limit, usual))
        still = rows.filter((earlier >= self.changes_minimum) & (pl.col("stood") >= pl.col("limit")))
        if still.is_empty():
            nothing = (("peers", pl.Int64()), ("moving_peers", pl.Int64()), ("bad", pl.Boolean()))
            return still.with_columns(pl.lit(None, dtype).alias(name) for name, dtype in nothing)
        peers = _moving_peers(still.filter(~pl.col("changed")), changes, before)
        moving = pl.col("moving_peers") >= self.peer_share * pl.col("peers")
        return still.join(peers, on=["entity", "time"], how="left", maintain_order="left").with_columns(
            bad=pl.when("changed").then(pl.lit(value=False)).when(moving).then(pl.lit(value=True))
        )


def _told(rows: pl.DataFrame, table: Table, columns: tuple[str, ...]) -> pl.DataFrame:
    """Entity (of the table's key), source, time and fingerprint of rows that say anything but zero."""
    if table.schema is FabricPort:
        up = (pl.col("state") != "down").fill_null(value=True)
        rows = rows.filter(~pl.col("device").str.contains("/", literal=True) & up)
    said = pl.any_horizontal(pl.col(column) != 0 for column in columns)
    # A sum of hashes that wraps around: cheaper than a hash of a struct, and as good.
    fingerprint = pl.sum_horizontal(pl.col(column).hash(number) for number, column in enumerate(columns))
    return rows.filter(said.fill_null(value=False)).select(
        pl.concat_str(*table.key, separator="/").alias("entity"), time=table.time, source=table.source,
        fingerprint=fingerprint,
    )  # fmt: skip


def _instants(rows: pl.DataFrame, before: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Per source and instant whether anything changed (null: nothing to compare with); and the last fingerprints."""
    rows = together(rows)
    firsts = rows.select("entity", begins=begins()).with_row_index("row").filter("begins")
    at, there = located(before["entity"], firsts["entity"])
    earlier = rows.select(pl.when(~begins()).then(pl.col("fingerprint").shift(1)).alias("earlier"))["earlier"]
    known = pl.Series(there, dtype=pl.Boolean)
    earlier = earlier.scatter(firsts["row"].filter(known), before["fingerprint"].gather(at[there]))
    compared = rows.select("source", "time", changed=pl.col("fingerprint") != earlier)
    last = rows.filter(ends()).select("entity", "fingerprint").sort("entity")
    prints = merged(before, last, *located(before["entity"], last["entity"]), by="entity")
    instants = compared.group_by(entity="source", time="time").agg(pl.col("changed").any(ignore_nulls=True))
    return instants.sort("entity", "time"), prints


def _changes(instants: pl.DataFrame, before: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Instants with since, changed_at and changes as they stand after each; and the sources' memory."""
    memory = ("since", "changed_at", "changes")
    known = before.select("entity", *memory)
    old_names = {name: f"old_{name}" for name in memory}
    rows = instants.join(known.rename(old_names), on="entity", how="left", maintain_order="left")
    changed, first = pl.col("changed").fill_null(value=False), pl.col("begins")
    rows = rows.with_columns(begins=begins(), more=changed.cast(pl.Int64).cum_sum()).with_columns(
        since=pl.when(first).then(pl.coalesce("old_since", "time")).forward_fill(),
        counted_before=pl.when(first).then(pl.col("more") - changed.cast(pl.Int64)).forward_fill(),
    )
    old = pl.coalesce("old_changed_at", "since")
    rows = rows.with_columns(
        changed_at=pl.when(changed).then("time").when(first).then(old).forward_fill(),
        changes=pl.col("old_changes").fill_null(0) + pl.col("more") - pl.col("counted_before"),
    ).with_columns(stood_since=pl.when(first).then(old).otherwise(pl.col("changed_at").shift(1)))
    last = rows.filter(ends()).select("entity", *memory)
    after = merged(known, last, *located(known["entity"], last["entity"]), by="entity")
    return rows.select("entity", "time", "changed", "stood_since", *memory), after


def _moving_peers(still: pl.DataFrame, changes: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    """entity, time, peers (other sources known by then), moving_peers (those that changed within the limit)."""
    moved = pl.concat([
        before.select(peer="entity", moved_at="changed_at"),
        changes.filter("changed").select(peer="entity", moved_at="time"),
    ]).sort("moved_at")  # fmt: skip
    asked = still.select("entity", "time", "limit").join(moved.select("peer").unique(), how="cross")
    asked = asked.filter(pl.col("peer") != pl.col("entity")).sort("time")
    latest = asked.join_asof(
        moved, left_on="time", right_on="moved_at", by="peer", strategy="backward", coalesce=False,
        check_sortedness=False,
    ).filter(pl.col("moved_at").is_not_null())  # fmt: skip
    counted = latest.group_by("entity", "time").agg(
        peers=pl.len().cast(pl.Int64),
        moving_peers=(pl.col("time") - pl.col("moved_at") < pl.col("limit")).sum().cast(pl.Int64),
    )
    alone = still.select("entity", "time").join(counted, on=["entity", "time"], how="anti")
    none = pl.lit(0, pl.Int64)
    return pl.concat([counted, alone.with_columns(peers=none, moving_peers=none)])


def _statements(moves: pl.DataFrame, table: Table, interval: timedelta) -> pl.DataFrame:
    return moves.with_columns(last_change_at="stood_since").with_columns(
        evidence("last_change_at", "peers", "moving_peers"),
        entity=pl.format("{}:{}", pl.lit(table.name), "entity"),
        code=pl.lit("frozen"),
        severity=pl.lit("ticket"),
        score=seconds(pl.col("stood")),
        threshold=seconds(pl.col("limit")),
        first_bad_at=pl.min_horizontal(pl.col("stood_since") + interval, "time"),
        action=pl.when("active").then(pl.lit("open_ticket")),
    )
