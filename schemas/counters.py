"""Counters to increments, in one place for all sources: what counts up, stops, falls and begins again.

A counter that falls was cleared or its owner restarted: it counts from zero, and its increment is never negative. One
at the top of its width (255, 65535, 4294967295) is stuck: it says nothing, least of all that nothing happens. The
first value that is known of an entity says nothing either, as it may be old; the first step from 0 to 1 does.
"""

from collections.abc import Mapping

import polars as pl


def counter_state(rows: pl.DataFrame, key: tuple[str, ...], columns: tuple[str, ...]) -> pl.DataFrame:
    """The state before the first row: key and counters, without rows."""
    return pl.DataFrame(schema={name: rows.schema[name] for name in (*key, *columns)})


def deltas(  # noqa: PLR0913  counters have these properties, and a caller names what it knows of them
    rows: pl.DataFrame,
    state: pl.DataFrame,
    key: tuple[str, ...],
    counters: Mapping[str, int | None],
    *,
    restarts_with: str | None = None,
    narrow: pl.Expr | None = None,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows with `<counter>_delta` and `<counter>_stuck` for each counter, and the state for the rows that follow.

    rows: in order of time within each key. state: `counter_state`, or what the last call returned. counters: column
    -> width in bits, None for one that does not stop. restarts_with: a column that grows as long as nobody clears the
    counters (energy since driver load, seconds since clear): where it falls they all count from zero, also one that
    has grown past its old value since. narrow: where the widths hold, for tables in which the same counter may be wide.

    delta is null for the first known value of a key, for a null, and for a stuck counter. A null leaves what is known
    as it is. However the rows are cut into calls, the answers are the same.
    """
    columns = tuple(dict.fromkeys((*counters, *([] if restarts_with is None else [restarts_with]))))
    known = state.select(*key, *(pl.col(name).alias(f"_before_{name}") for name in columns))
    walked = rows.join(known, on=key, how="left", nulls_equal=True, maintain_order="left")
    fell = pl.lit(False)
    if restarts_with is not None:
        earlier = pl.coalesce(
            pl.col(restarts_with).forward_fill().shift(1).over(key), pl.col(f"_before_{restarts_with}")
        )
        fell = (pl.col(restarts_with) < earlier).fill_null(value=False)
    walked = walked.with_columns(_fell=fell)
    walked = walked.with_columns(
        pl.when(pl.col(name).is_null() & pl.col("_fell")).then(0).otherwise(pl.col(name)).alias(f"_memory_{name}")
        for name in columns
    )
    said = [
        expression
        for name, bits in counters.items()
        for expression in _judged(name, bits, key, pl.lit(True) if narrow is None else narrow)
    ]
    after = walked.group_by(key, maintain_order=True).agg(
        pl.coalesce(pl.col(f"_memory_{name}").drop_nulls().last(), pl.col(f"_before_{name}").first()).alias(name)
        for name in columns
    )
    silent = state.join(after, on=key, how="anti", nulls_equal=True)
    kept = pl.concat([silent.select(*key, *columns), after.cast(state.schema)]).sort(key, nulls_last=True)
    return walked.with_columns(said).select(*rows.columns, *_added(counters)), kept


def _judged(name: str, bits: int | None, key: tuple[str, ...], narrow: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    value = pl.col(name)
    earlier = pl.coalesce(pl.col(f"_memory_{name}").forward_fill().shift(1).over(key), pl.col(f"_before_{name}"))
    previous = pl.when("_fell").then(0).otherwise(earlier)
    stuck = pl.lit(False) if bits is None else ((value == 2**bits - 1) & narrow).fill_null(value=False)
    grown = pl.when(value < previous).then(value).otherwise(value - previous)
    delta = pl.when(~stuck & previous.is_not_null()).then(grown)
    return delta.alias(f"{name}_delta"), stuck.alias(f"{name}_stuck")


def _added(counters: Mapping[str, int | None]) -> list[str]:
    return [f"{name}_{what}" for name in counters for what in ("delta", "stuck")]
