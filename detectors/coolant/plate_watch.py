"""The plates of a loop that has lost flow, followed sample by sample: when GPUs will throttle and shut down.

Only loops under suspicion are followed, and these are few, so this is plain arithmetic row by row: each temperature
comes from the one before, through exponentials whose last bit must not depend on where in a column they stand.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from detectors.coolant.time_left import SUPPLY_CELSIUS, Body, plate
from schemas.columns import UTC_MICROSECONDS

WATCH_COLUMNS = pl.Schema(
    {
        "plate_celsius": pl.Float64(), "plate_flow_share": pl.Float64(), "plate_supply_celsius": pl.Float64(),
        "plate_stated_at": UTC_MICROSECONDS, "plate_first_bad_at": UTC_MICROSECONDS,
        "throttles_at": UTC_MICROSECONDS, "shuts_down_at": UTC_MICROSECONDS,
    }
)  # fmt: skip
SAID_COLUMNS = pl.Schema(
    {
        "entity": pl.String(), "time": UTC_MICROSECONDS, "stated_at": UTC_MICROSECONDS,
        "stated_first_bad_at": UTC_MICROSECONDS, "throttles_at": UTC_MICROSECONDS, "shuts_down_at": UTC_MICROSECONDS,
    }
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Where GPUs act, their power, and what of a prediction is worth saying again."""

    gpu_watts: float
    throttle_celsius: float
    shutdown_celsius: float
    falling_share: float
    restate_seconds: float
    restate_share: float
    withdraw_kelvin: float


@dataclass(frozen=True, kw_only=True)
class _Watch:
    """A loop's plates: WATCH_COLUMNS. plate_stated_at: when the level was said to begin; None while only suspected."""

    plate_celsius: float
    plate_flow_share: float
    plate_supply_celsius: float
    plate_stated_at: datetime | None = None
    plate_first_bad_at: datetime | None = None
    throttles_at: datetime | None = None
    shuts_down_at: datetime | None = None


def follow(
    rows: pl.DataFrame, changes: pl.DataFrame, before: pl.DataFrame, limits: Limits
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """When to speak of the time left, and the watches after the batch.

    rows: entity, time, elapsed_seconds, share, supply_celsius, suspect_since, alone (other pumps go on), in order of
    entity and time. changes: entity, time, active, first_bad_at of the level. before: entity and WATCH_COLUMNS.
    Returns SAID_COLUMNS: one row where the level begins, and one where what was said then no longer holds.
    """
    held = {row.pop("entity"): _Watch(**row) for row in before.drop_nulls("plate_celsius").iter_rows(named=True)}
    schema = pl.Schema({"entity": pl.String(), **WATCH_COLUMNS})
    suspected = rows["entity"].filter(rows["suspect_since"].is_not_null()).unique()
    if suspected.is_empty() and not held:
        return pl.DataFrame(schema=SAID_COLUMNS), pl.DataFrame(schema=schema)
    some = pl.concat([suspected, pl.Series(list(held), dtype=pl.String())]).unique()
    turns = {(row["entity"], row["time"]): row for row in changes.iter_rows(named=True)}
    said: list[dict[str, Any]] = []
    for row in rows.filter(pl.col("entity").is_in(some.implode())).iter_rows(named=True):
        entity, turn, earlier = row["entity"], turns.get((row["entity"], row["time"])), held.pop(row["entity"], None)
        watch = _warmed(earlier, row, limits)
        if watch is None:
            continue
        if turn is not None:
            since = row["suspect_since"] or turn["first_bad_at"]
            watch = replace(watch, plate_stated_at=row["time"] if turn["active"] else None, plate_first_bad_at=since)
        if watch.plate_stated_at is not None and row["suspect_since"] is not None:
            ahead = _ahead(watch, earlier, row, limits)
            if turn is not None or _moved(watch, ahead, row["time"], limits):
                watch = replace(watch, throttles_at=ahead[0], shuts_down_at=ahead[1])
                said.append(
                    {
                        "entity": entity, "time": row["time"], "stated_at": watch.plate_stated_at,
                        "stated_first_bad_at": watch.plate_first_bad_at, "throttles_at": ahead[0],
                        "shuts_down_at": ahead[1],
                    }
                )  # fmt: skip
        held[entity] = watch
    kept = [{"entity": entity, **asdict(watch)} for entity, watch in held.items()]
    return pl.DataFrame(said, schema=SAID_COLUMNS), pl.DataFrame(kept, schema=schema).sort("entity")


def _warmed(watch: _Watch | None, row: Mapping[str, Any], limits: Limits) -> _Watch | None:
    """The plates at this row: those of a loop that has just come under suspicion stand where full flow had them."""
    suspect = row["suspect_since"] is not None
    if watch is None:
        if not suspect:
            return None
        supply = SUPPLY_CELSIUS if row["supply_celsius"] is None else row["supply_celsius"]
        return _Watch(
            plate_celsius=plate(1.0, supply, limits.gpu_watts).equilibrium_celsius(),
            plate_flow_share=row["share"], plate_supply_celsius=supply,
        )  # fmt: skip
    if not suspect and watch.plate_stated_at is None:
        return None
    supply = watch.plate_supply_celsius if row["supply_celsius"] is None else row["supply_celsius"]
    body = plate(row["share"], supply, limits.gpu_watts)
    return replace(
        watch, plate_celsius=body.celsius_after(watch.plate_celsius, row["elapsed_seconds"]),
        plate_flow_share=row["share"], plate_supply_celsius=supply,
    )  # fmt: skip


def _ahead(
    watch: _Watch, before: _Watch | None, row: Mapping[str, Any], limits: Limits
) -> tuple[datetime | None, datetime | None]:
    """When the two limits are met from here on. A flow that is still falling, with no pump left, will be none."""
    falling = before is None or watch.plate_flow_share < before.plate_flow_share - limits.falling_share
    share = 0.0 if falling and not row["alone"] else watch.plate_flow_share
    body = plate(share, watch.plate_supply_celsius, limits.gpu_watts)
    both = ((limits.throttle_celsius, watch.throttles_at), (limits.shutdown_celsius, watch.shuts_down_at))
    throttle, shutdown = (_met(body, limit, said, watch, row["time"], limits) for limit, said in both)
    return throttle, shutdown


def _met(  # noqa: PLR0913, PLR0917  # the body, the limit and what is known of it
    body: Body, limit: float, said: datetime | None, watch: _Watch, now: datetime, limits: Limits
) -> datetime | None:
    if said is not None and said <= now:
        return said  # it has been met, or should have been
    left = body.seconds_until(limit, watch.plate_celsius)
    if left is None and said is not None and body.equilibrium_celsius() > limit - limits.withdraw_kelvin:
        return said  # on the edge: nothing to be relieved about
    return None if left is None else now + timedelta(seconds=round(left, 3))


def _moved(watch: _Watch, ahead: tuple[datetime | None, datetime | None], now: datetime, limits: Limits) -> bool:
    """Whether either prediction came up, went away, or moved by more than is worth a word."""
    for said, said_now in zip((watch.throttles_at, watch.shuts_down_at), ahead, strict=True):
        if said is None or said_now is None:
            if said != said_now:
                return True
            continue
        worth = max(limits.restate_seconds, limits.restate_share * (said - now).total_seconds())
        if abs((said_now - said).total_seconds()) > worth:
            return True
    return False
