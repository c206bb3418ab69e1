"""What exporters make of their rows before they send them: the true rows of a block go in, what is sent comes out."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

import polars as pl

from replay.conditions import Conditions, Lie
from schemas.tables import TABLE_BY_NAME, Table

ARRIVED = "arrived_at"
Key = tuple[str, str, float, int]


def counters_of(table: Table) -> tuple[str, ...]:
    """Columns that count from when their keeper began, or was cleared. The time since that is one of them: who keeps
    the counters keeps it beside them (a port reports both), so what sets them to zero sets it to zero.
    """
    return tuple(name for name in table.columns if name.endswith("_total") or name == "seconds_since_clear")


@dataclass(eq=False)
class Exporters:
    """starts_at: of the scenario. By lie: last, the newest true rows of its source; began, what the source's counters
    had counted when it last restarted.
    """

    starts_at: datetime
    last: dict[Key, pl.DataFrame] = field(default_factory=dict)
    began: dict[Key, pl.DataFrame] = field(default_factory=dict)

    def sent(self, name: str, rows: pl.DataFrame, conditions: Conditions) -> pl.DataFrame:
        """The rows of the table as they are sent, in their order. Asked once for each table and block."""
        for lie in conditions.lies:
            if lie.table == name and not lie.clock_seconds and not rows.is_empty():
                rows = self._as_told(TABLE_BY_NAME[name], rows, lie)
        return rows

    def stamped(self, name: str, rows: pl.DataFrame, conditions: Conditions) -> pl.DataFrame:
        """The rows with the times that their sources' clocks show; ARRIVED is when they are sent."""
        table = TABLE_BY_NAME[name]
        shown = pl.col(table.time)
        for lie in conditions.lies:
            if lie.table == name and lie.clock_seconds:
                ahead = shown + timedelta(seconds=lie.clock_seconds)
                shown = pl.when(self._lying(table, lie)).then(ahead).otherwise(shown)
        return rows.with_columns(shown.alias(table.time), pl.col(table.time).alias(ARRIVED))

    def _as_told(self, table: Table, rows: pl.DataFrame, lie: Lie) -> pl.DataFrame:
        lying = self._lying(table, lie)
        if lie.restarts_seconds:
            return self._restarted(table, rows, lie, lying)
        if lie.readings:
            counted = pl.int_range(pl.len()).over(table.source) % lie.every == 0
            values = [
                pl.when(lying & counted).then(pl.lit(value)).otherwise(name).alias(name)
                for name, value in lie.readings.items()
            ]
            return rows.with_columns(values)
        key = _key(lie)
        true = rows.filter((pl.col(table.source) == lie.source) & (pl.col(table.time) < self._at(lie.begins)))
        if not true.is_empty():
            self.last[key] = true.group_by(*table.key, maintain_order=True).last()
        if key not in self.last:
            return rows
        still = rows.select(table.time, *table.key).join(
            self.last[key].drop(table.time), on=table.key, how="left", maintain_order="left"
        )
        frozen = rows.select(lying).to_series()
        if lie.stuck is not None:
            return rows.with_columns(still[lie.stuck].zip_with(frozen, rows[lie.stuck]))
        kept = pl.concat([rows.filter(~frozen), still.filter(frozen).select(rows.columns)])
        return kept.sort(table.time, maintain_order=True)

    def _at(self, seconds: float) -> datetime:
        return self.starts_at + timedelta(seconds=seconds)

    def _lying(self, table: Table, lie: Lie) -> pl.Expr:
        """Whether a row is of the lie's source and time."""
        time, mine = pl.col(table.time), pl.col(table.source) == lie.source
        begun = mine & (time >= self._at(lie.begins))
        return begun if lie.ends is None else begun & (time < self._at(lie.ends))

    def _restarted(self, table: Table, rows: pl.DataFrame, lie: Lie, lying: pl.Expr) -> pl.DataFrame:
        """The source's counters count from its last restart, and it says nothing while it restarts."""
        counters = counters_of(table)
        key, place = _key(lie), [*table.key, "_restart"]
        since = (pl.col(table.time) - self.starts_at).dt.total_microseconds() - round(lie.begins * 1e6)
        every, gap = lie.restarts_seconds * 1_000_000, lie.gap_seconds * 1_000_000
        rows = rows.with_columns(_restart=pl.when(lying).then(since // every), _up=~lying | (since % every >= gap))
        first = rows.filter(pl.col("_restart").is_not_null()).select(*place, *counters)
        first = pl.concat([self.began.get(key, first.clear()), first]).unique(place, keep="first", maintain_order=True)
        self.began[key] = first.filter(pl.col("_restart") == pl.col("_restart").max())
        counted = rows.join(first, on=place, how="left", suffix="_then", maintain_order="left").with_columns(
            pl.col(name) - pl.col(f"{name}_then").fill_null(0) for name in counters
        )
        return counted.filter("_up").select(rows.drop("_restart", "_up").columns)


def _key(lie: Lie) -> Key:
    """What tells a lie from others of its source, in every block: restarts are numbered from `begins`, each so long."""
    return lie.table, lie.source, lie.begins, lie.restarts_seconds
