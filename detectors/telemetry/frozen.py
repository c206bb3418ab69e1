"""A source whose values stand still while its rows go on: the exporter repeats itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import dataframely as dy
import numpy as np
import polars as pl

from detectors.contract import Context, Detection, evidence, findings_frame, ordered
from detectors.heard import heard, in_order
from detectors.levels import LEVEL_COLUMNS, levels
from detectors.silence import seconds
from detectors.stats.sorted_state import Numbers, beside, located, merged, part
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
            # Where no row is left out, the step's own frame, which is put in order once for all.
            same = tables[schema] if rows.height == tables[schema].height else rows
            orders = [in_order(context, same, by) for by in (table.key, (table.source,))]
            prints_before = part(before, "row", ENTITY)["entity", "fingerprint"]
            instants, prints = _instants(rows, prints_before, table, heard(context, same, table.key), orders)
            changes, memory = _changes(instants, sources)
            held = sources[LEVEL_COLUMNS.names()].filter(sources["bad"].is_not_null())
            samples = self._judged(changes, sources, interval)
            if not samples.is_empty():
                moves, held = levels(samples, held)
                if not moves.is_empty():
                    said = _statements(moves, table, interval)
                    found.append(findings_frame(said, self.name, "telemetry_frozen", "source"))
            level = memory if held.is_empty() else beside(memory, held)
            kept += [
                self._kept(table, row, part(before, "row", row), known)
                for row, known in ((ENTITY, prints), (SOURCE, level))
            ]
        # In order of table, row and entity as they come, so that the next batch finds each part by bisection.
        return Detection(ordered(*found), pl.concat(kept))

    def _kept(self, table: Table, row: str, before: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
        if before["entity"].equals(known["entity"]):
            return before.with_columns(known.get_columns())
        said = {"row": row, "table": table.name}
        return known.select(
            pl.lit(said[name]).alias(name) if name in said
            else pl.col(name) if name in known.columns
            else pl.lit(None, dtype).alias(name)
            for name, dtype in self.keeps.items()
        )  # fmt: skip

    def _judged(self, changes: pl.DataFrame, before: pl.DataFrame, interval: timedelta) -> pl.DataFrame:
        """Samples of the levels: bad where a source stood too long while its peers moved, good where that ended."""
        limit = max(timedelta(seconds=self.frozen_seconds), self.frozen_intervals * interval)
        is_long = changes["time"] - changes["stood_since"] >= limit
        if not is_long.any():
            return changes.clear()
        long = changes.filter(is_long)
        earlier = pl.col("changes") - pl.col("changed").cast(pl.Int64)
        mean_gap = (pl.col("stood_since") - pl.col("since")).dt.total_microseconds() // earlier.clip(1)
        usual = pl.duration(microseconds=(self.usual_gaps * mean_gap).round().cast(pl.Int64))
        rows = long.with_columns(
            stood=pl.col("time") - pl.col("stood_since"), limit=pl.max_horizontal(pl.lit(limit), usual)
        )
        still = rows.filter((earlier >= self.changes_minimum) & (pl.col("stood") >= pl.col("limit")))
        if still.is_empty():
            return still
        peers = _moving_peers(still.filter(~pl.col("changed")), changes, before)
        moving = pl.col("moving_peers") >= self.peer_share * pl.col("peers")
        return still.join(peers, on=["entity", "time"], how="left", maintain_order="left").with_columns(
            bad=pl.when("changed").then(pl.lit(value=False)).when(moving).then(pl.lit(value=True))
        )


def _told(rows: pl.DataFrame, table: Table, columns: tuple[str, ...]) -> pl.DataFrame:
    """The key and time of rows that say anything but zero, and their fingerprint."""
    said = pl.any_horizontal(pl.col(column) != 0 for column in columns).fill_null(value=False)
    if table.schema is FabricPort:
        up = (pl.col("state") != "down").fill_null(value=True)
        said &= ~pl.col("device").str.contains("/", literal=True) & up
    # A sum of hashes that wraps around: cheaper than a hash of a struct, and as good.
    fingerprint = pl.sum_horizontal(pl.col(column).hash(number) for number, column in enumerate(columns))
    rows = rows.select(*table.key, "time", fingerprint=fingerprint, said=said)
    return rows if rows["said"].all() else rows.filter("said")


def _instants(
    rows: pl.DataFrame, before: pl.DataFrame, table: Table, seen: pl.DataFrame, orders: list[pl.DataFrame]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Per source and instant whether anything changed; and the last fingerprints.

    rows: of `_told`. before: fingerprint of each entity, in order of its name. seen, orders: of detectors.heard, the
    rows by entity and by source. Returns entity (the source), time, changed and begins (it is the source's first); the
    instants of a source one behind the other in order of time.
    """
    order, of_source = orders
    prints, row = rows["fingerprint"].to_numpy(), order["row"].to_numpy()
    in_turn = prints[row]
    changed = np.zeros(rows.height, dtype=np.bool_)
    changed[row[1:]] = (in_turn[1:] != in_turn[:-1]) & ~order["begins"].to_numpy()[1:]
    at, there = located(before["entity"], seen["id"])
    firsts = seen["first_row"].to_numpy()[there]  # of those that have a row to compare with
    changed[firsts] = prints[firsts] != before["fingerprint"].to_numpy()[at[there]]
    last = pl.DataFrame({"entity": seen["id"], "fingerprint": prints[seen["row"].to_numpy()]})
    row, times = of_source["row"].to_numpy(), rows["time"][of_source["row"]].to_physical().to_numpy()
    begins = of_source["begins"].to_numpy()
    apart = begins.copy()
    apart[1:] |= times[1:] != times[:-1]
    at_instants = np.flatnonzero(apart)
    instants = rows[table.source, "time"][pl.Series(row[at_instants])].rename({table.source: "entity"}).hstack([
        pl.Series("changed", np.logical_or.reduceat(changed[row], at_instants)),
        pl.Series("begins", begins[at_instants]),
    ])  # fmt: skip
    return instants, merged(before, last, at, there, by="entity")


def _changes(instants: pl.DataFrame, before: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Instants with since, changed_at and changes as they stand after each; and the sources' memory.

    In arrays, as there are six tables of a few sources each, and thirty queries would cost more than the rows.
    """
    times, changed = instants["time"].to_physical().to_numpy(), instants["changed"].to_numpy()
    is_first = instants["begins"].to_numpy()
    first, number = np.flatnonzero(is_first), np.cumsum(is_first) - 1
    sources = instants["entity"][first]
    at, there = located(before["entity"], sources)

    def known(name: str, otherwise: Numbers) -> Numbers:
        found = otherwise.copy()
        found[there] = before[name].to_physical().to_numpy()[at[there]]
        return found

    since = known("since", times[first])
    changed_before, counted = known("changed_at", since), known("changes", np.zeros(len(first), dtype=np.int64))
    so_far = np.cumsum(changed)
    changes = counted[number] + so_far - (so_far - changed)[first][number]
    at_change = np.where(changed, times, changed_before[number])
    latest = np.maximum.accumulate(np.where(changed | is_first, np.arange(len(times)), 0))
    changed_at = at_change[latest]
    stood_since = np.where(is_first, changed_before[number], np.roll(changed_at, 1))
    found = {"stood_since": stood_since, "since": since[number], "changed_at": changed_at}
    rows = instants.hstack([
        *(pl.Series(name, values).cast(UTC_MICROSECONDS) for name, values in found.items()),
        pl.Series("changes", changes),
    ])  # fmt: skip
    last = rows["entity", "since", "changed_at", "changes"][np.append(first[1:], len(times)) - 1].sort("entity")
    return rows, merged(before[last.columns], last, *located(before["entity"], last["entity"]), by="entity")


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
