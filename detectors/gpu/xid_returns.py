"""How often a GPU came back from a reset or reboot and then logged the same error again."""

from datetime import datetime, timedelta

import polars as pl

from detectors.gpu.slots import GPU_ID
from detectors.stats.sorted_state import part
from schemas.columns import UTC_MICROSECONDS

CODE, GPU = "code", "gpu"
RETURN_COLUMNS = pl.Schema(
    {
        "row": pl.String(), "entity": pl.String(), "xid": pl.Int64(), "time": UTC_MICROSECONDS,
        "energy_joules_total": pl.Float64(), "returned": pl.Boolean(), "came_back": pl.Int64(),
    }
)  # fmt: skip
KEY = ["entity", "xid"]
NOBODY_BACK = pl.DataFrame(schema={"entity": pl.String(), "time": UTC_MICROSECONDS, "backs": pl.Int64()})


def came_back(  # noqa: PLR0913  # rows, memory, and three times by keyword
    events: pl.DataFrame, rows: pl.DataFrame, state: pl.DataFrame, *, now: datetime, pause: timedelta, window: timedelta
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """row, came_back for each event: how often the code came again on its GPU after the GPU had been back at work.

    events: row, entity, xid, time. rows: of the gpu table. state: RETURN_COLUMNS, per (GPU, code) its last event and
    per such GPU its last row; forgotten `window` after the code's last event. A GPU was back when its rows paused for
    more than `pause` or its energy since driver load fell: somebody reset it or rebooted its host.
    """
    if events.is_empty() and state.is_empty():
        nothing = {"row": events.schema["row"], "came_back": pl.Int64(), "stepped": pl.Boolean()}
        return pl.DataFrame(schema=nothing), state
    back, last_rows = _backs(events, rows, state, pause)
    codes = part(state, "row", CODE).select(*KEY, "time", "returned", "came_back", carried=True)
    timeline = pl.concat([codes, events.select("row", *KEY, "time", carried=False)], how="diagonal")
    if back.is_empty():
        counted = timeline.with_columns(backs=pl.lit(0, pl.Int64), total=pl.lit(0, pl.Int64))
    else:
        counted = timeline.sort("time").join_asof(
            back.select("entity", "time", "backs").sort("time"), on="time", by="entity", check_sortedness=False
        )
        counted = counted.with_columns(backs=pl.when("carried").then(0).otherwise(pl.col("backs").fill_null(0)))
        total = back.group_by("entity").agg(total=pl.col("backs").max())
        counted = counted.join(total, on="entity", how="left").with_columns(pl.col("total").fill_null(0))
    counted = counted.sort(*KEY, "carried", "time", descending=[False, False, True, False], maintain_order=True)
    fresh = is_first() | (pl.col("time") - pl.col("time").shift(1) > window)
    again = (pl.col("backs") > pl.col("backs").shift(1)) | pl.col("returned").shift(1).fill_null(value=False)
    counted = counted.with_columns(fresh=fresh, stepped=again & ~fresh)
    one_more = pl.when("carried").then("came_back").otherwise(pl.col("stepped").cast(pl.Int64).fill_null(0))
    so_far = one_more.cum_sum()
    counted = counted.with_columns(came_back=so_far - pl.when("fresh").then(so_far - one_more).forward_fill())
    latest = counted.filter(is_first().shift(-1, fill_value=True) & (now - pl.col("time") <= window)).with_columns(
        returned=(pl.col("total") > pl.col("backs")) | (pl.col("carried") & pl.col("returned"))
    )
    kept = [
        latest.select(*KEY, "time", "returned", "came_back", row=pl.lit(CODE)),
        last_rows.join(latest, on="entity", how="semi").with_columns(row=pl.lit(GPU)),
    ]
    after = pl.concat(kept, how="diagonal").select(RETURN_COLUMNS.names())
    said = counted.filter(~pl.col("carried")).select(
        "row", "came_back", stepped=pl.col("stepped").fill_null(value=False)
    )
    return said, after


def is_first() -> pl.Expr:
    """Whether a row is the first of its GPU and code, in rows that are in order of both."""
    return pl.any_horizontal(pl.col(name) != pl.col(name).shift(1) for name in KEY).fill_null(value=True)


def _backs(
    events: pl.DataFrame, rows: pl.DataFrame, state: pl.DataFrame, pause: timedelta
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """entity, time, backs (so far in this batch) of the rows of GPUs with a known event; and each one's last row."""
    known = part(state, "row", GPU).select("entity", "time", "energy_joules_total")
    began = events.join(known, on="entity", how="anti").group_by("entity").agg(pl.col("time").min())
    first = pl.concat([known, began], how="diagonal")
    if rows.is_empty():
        return NOBODY_BACK, first
    first = first.with_columns(carried=pl.lit(True))
    nodes = first.select(node=pl.col("entity").str.split("/").list.first()).unique()
    samples = (
        rows.join(nodes, on="node", how="semi").select(GPU_ID, "time", "energy_joules_total")
        .join(first.select("entity", since="time"), on="entity").filter(pl.col("time") > pl.col("since")).drop("since")
    )  # fmt: skip
    timeline = pl.concat([first, samples.with_columns(carried=pl.lit(False))], how="diagonal").sort(
        "entity", "time", maintain_order=True
    )
    energy = pl.col("energy_joules_total").forward_fill().over("entity")
    timeline = timeline.with_columns(energy_joules_total=energy)
    paused = pl.col("time") - pl.col("time").shift(1).over("entity") > pause
    reloaded = pl.col("energy_joules_total") < pl.col("energy_joules_total").shift(1).over("entity")
    back = (paused.fill_null(value=False) | reloaded.fill_null(value=False)).cast(pl.Int64)
    timeline = timeline.with_columns(backs=back.cum_sum().over("entity"))
    last = timeline.group_by("entity", maintain_order=True).last().select("entity", "time", "energy_joules_total")
    return timeline.filter(~pl.col("carried")), last
