"""What exporters make of their rows before they send them: the true rows of a block go in, what is sent comes out."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

import polars as pl

from replay.conditions import Conditions, Lie
from schemas.tables import TABLE_BY_NAME, Table


@dataclass(eq=False)
class Exporters:
    """starts_at: of the scenario. last: each lying source's newest true rows, by (table, source)."""

    starts_at: datetime
    last: dict[tuple[str, str], pl.DataFrame] = field(default_factory=dict)

    def sent(self, name: str, rows: pl.DataFrame, conditions: Conditions) -> pl.DataFrame:
        """The rows of the table as they are sent, in their order. Asked once for each table and block."""
        for lie in conditions.lies:
            if lie.table == name and not rows.is_empty():
                rows = self._as_told(TABLE_BY_NAME[name], rows, lie)
        return rows

    def _as_told(self, table: Table, rows: pl.DataFrame, lie: Lie) -> pl.DataFrame:
        begins = self.starts_at + timedelta(seconds=lie.begins)
        ends = None if lie.ends is None else self.starts_at + timedelta(seconds=lie.ends)
        time, mine = pl.col(table.time), pl.col(table.source) == lie.source
        lying = mine & (time >= begins) & (pl.lit(value=True) if ends is None else time < ends)
        if lie.readings:
            counted = pl.int_range(pl.len()).over(table.source) % lie.every == 0
            values = [
                pl.when(lying & counted).then(pl.lit(value)).otherwise(name).alias(name)
                for name, value in lie.readings.items()
            ]
            return rows.with_columns(values)
        key = (table.name, lie.source)
        true = rows.filter(mine & ~lying & (time < begins))
        if not true.is_empty():
            self.last[key] = true.group_by(*table.key, maintain_order=True).last()
        if key not in self.last:
            return rows
        still = rows.select(table.time, *table.key).join(
            self.last[key].drop(table.time), on=table.key, how="left", maintain_order="left"
        )
        frozen = rows.select(lying).to_series()
        kept = pl.concat([rows.filter(~frozen), still.filter(frozen).select(rows.columns)])
        return kept.sort(table.time, maintain_order=True)
