"""Errors of the application (XID 13 and 31) that come back on the same hardware, and only there."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import dataframely as dy
import polars as pl

from detectors.contract import Context, Detection, evidence, findings_frame, ordered
from schemas.columns import UTC_MICROSECONDS
from schemas.gpu import GpuEvent

GRAPHICS_EXCEPTION, PAGE_FAULT = 13, 31
OPEN, RECENT, PLACE, LEVEL = "open", "recent", "place", "level"
KEY = ["entity", "xid", "place"]
WHOLE_GPU, UNKNOWN_PLACE = "GPU", "unknown"


@dataclass(frozen=True, kw_only=True)
class XidRepeats:
    """A processor of the GPU computes wrong addresses, and the driver blames the program that ran on it.

    What it looks like: XID 13 (graphics exception) and 31 (page fault) are nearly always the application's, and all
    classifiers call them benign; but when 13 names the same texture processing cluster (GPC and TPC in the line) again,
    or 31 the same GPU, within a day, NVIDIA's workflows for both ask for field diagnostics.
    Formula: lines of one code and place less than `occurrence_seconds` apart are one occurrence. An occurrence is
    judged `company_seconds` after its first line; when the same code was logged of `application_gpus` or more GPUs in
    `occurrence_seconds` before or until then, a program crashed and it does not count. `repeats` that count, each
    within `window_seconds` of the one before, are a ticket for the GPU; it ends `window_seconds` after the last one.
    Defaults: 2 in 24 h, NVIDIA's workflows 13 and 31. 60 s, as a crash logs a line per processor at once; 45 s, as
    ranks that run one program meet its error in one step (assumptions). 3 GPUs: one
    program error shows on every rank (77 healthy nodes were flagged after one crash: NVSentinel pull request 1629).
    Cannot see: a 13 whose line names no GPC and TPC; a sick GPU in a job of one or two GPUs whose program is wrong,
    from the program; errors that never pause for `occurrence_seconds` (they are one).
    """

    repeats: int = 2
    window_seconds: float = 86_400.0
    occurrence_seconds: float = 60.0
    company_seconds: float = 45.0
    application_gpus: int = 3

    @property
    def name(self) -> str:
        return "gpu.xid_repeats"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return (GpuEvent,)

    @property
    def keeps(self) -> pl.Schema:
        """Occurrences not yet judged and those just past, the last line of each place, its run of repeats, levels."""
        return pl.Schema(
            {
                "row": pl.String(), "entity": pl.String(), "xid": pl.Int64(), "place": pl.String(),
                "time": UTC_MICROSECONDS, "first_bad_at": UTC_MICROSECONDS, "count": pl.Int64(), "message": pl.String(),
            }
        )  # fmt: skip

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        apart, window = timedelta(seconds=self.occurrence_seconds), timedelta(seconds=self.window_seconds)
        waits = timedelta(seconds=self.company_seconds)
        fresh, lines_after = _occurrences(_lines(tables[GpuEvent]), state.filter(row=RECENT), apart)
        known = state.filter(row=OPEN).select(*KEY, "time", "message", "count")
        starts = pl.concat([known, fresh.with_columns(count=pl.lit(None, pl.Int64))])
        due = pl.col("time") + waits < context.now
        judged = starts.with_columns(gpus=_gpus_around(starts, apart, waits)).filter(due & pl.col("count").is_null())
        own = judged.filter((pl.col("gpus") < self.application_gpus) & (pl.col("place") != UNKNOWN_PLACE))
        places = _runs(own.with_columns(count=pl.lit(1, pl.Int64)), state.filter(row=PLACE), KEY, window)
        places = places.with_columns(count=pl.col("count").cum_sum().over([*KEY, "run"]))
        sure = places.filter(~pl.col("carried") & (pl.col("count") >= self.repeats))
        levels = _runs(sure.with_columns(time=pl.col("time") + waits), state.filter(row=LEVEL), ["entity"], window)
        over = pl.coalesce("next", pl.lit(context.now)) - pl.col("time") > window
        said = self._said(levels.filter("fresh"), levels.filter(over).with_columns(time=pl.col("time") + window))
        told = starts.with_columns(count=pl.when(due).then(pl.lit(1, pl.Int64)))
        kept = [
            told.filter(pl.col("time") + 3 * apart >= context.now).with_columns(row=pl.lit(OPEN)),
            lines_after.filter(pl.col("time") + apart >= context.now).with_columns(row=pl.lit(RECENT)),
            places.filter(pl.col("next").is_null() & (pl.col("time") + window + 2 * apart >= context.now)).with_columns(
                row=pl.lit(PLACE)
            ),
            levels.filter(pl.col("next").is_null() & ~over).with_columns(row=pl.lit(LEVEL)),
        ]
        after = pl.concat([pl.DataFrame(schema=self.keeps), *kept], how="diagonal").select(self.keeps.names())
        return Detection(ordered(findings_frame(said, self.name, "gpu_fatal_error", "gpu")), after.sort(pl.all()))

    def _said(self, begins: pl.DataFrame, ends: pl.DataFrame) -> pl.DataFrame:
        said = pl.concat([begins.with_columns(active=pl.lit(True)), ends.with_columns(active=pl.lit(False))])
        return said.with_columns(
            evidence("xid", "place", "count", "message"), code=pl.format("xid {} again", "xid"),
            severity=pl.lit("ticket"), score=pl.when("active").then(pl.col("count").cast(pl.Float64)).otherwise(0.0),
            threshold=pl.lit(float(self.repeats)),
            action=pl.when("active").then(pl.lit("field_diagnostics")),
        )  # fmt: skip


def _lines(events: pl.DataFrame) -> pl.DataFrame:
    """entity, xid, place, time and message of the lines with one of the two codes."""
    slot = pl.coalesce(pl.col("gpu").cast(pl.String), "pci", pl.lit("unknown"))
    cluster = pl.col("message").str.extract(r"\((GPC \d+, TPC \d+)").fill_null(UNKNOWN_PLACE)
    wanted = (pl.col("kind") == "xid") & pl.col("code").is_in([GRAPHICS_EXCEPTION, PAGE_FAULT])
    return events.filter(wanted).select(
        entity=pl.format("{}/{}", "node", slot), xid="code",
        place=pl.when(pl.col("code") == GRAPHICS_EXCEPTION).then(cluster).otherwise(pl.lit(WHOLE_GPU)),
        time="time", message="message",
    ).sort("time", *KEY, "message", nulls_last=True)  # fmt: skip


def _occurrences(lines: pl.DataFrame, recent: pl.DataFrame, apart: timedelta) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Lines that no other line of their place came before within `apart`; and the last line of each place."""
    before = recent.select(*KEY, "time", carried=pl.lit(True))
    timeline = pl.concat([before, lines.with_columns(carried=pl.lit(False))], how="diagonal")
    gap = pl.col("time") - pl.col("time").shift(1).over(KEY)
    fresh = timeline.filter(~pl.col("carried") & (gap > apart).fill_null(value=True))
    last = timeline.group_by(KEY, maintain_order=True).agg(pl.col("time").last())
    return fresh.select(*KEY, "time", "message"), last


def _gpus_around(starts: pl.DataFrame, apart: timedelta, waits: timedelta) -> pl.Series:
    """Of how many GPUs the code was logged from `apart` before to `waits` after each occurrence, its own included."""
    rows = starts.with_row_index("number").sort("xid", "entity", "time")
    own_before = pl.col("time") - pl.col("time").shift(1).over("xid", "entity") <= apart
    firsts = rows.filter(~own_before.fill_null(value=False))
    counted = pl.repeat(0, starts.height, dtype=pl.Int64, eager=True).alias("gpus")
    for code in (GRAPHICS_EXCEPTION, PAGE_FAULT):
        times = firsts.filter(xid=code)["time"].sort()
        here = rows.filter(xid=code)
        until = times.search_sorted(here["time"] + waits, side="right").cast(pl.Int64)
        since = times.search_sorted(here["time"] - apart, side="left").cast(pl.Int64)
        counted = counted.scatter(here["number"], until - since)
    return counted


def _runs(events: pl.DataFrame, before: pl.DataFrame, key: list[str], window: timedelta) -> pl.DataFrame:
    """Events behind the carried last one of their key: `fresh` begins a run, `run` numbers it, `next` follows."""
    timeline = pl.concat(
        [before.drop("row").with_columns(carried=pl.lit(True)), events.with_columns(carried=pl.lit(False))],
        how="diagonal",
    ).sort(*key, "carried", "time", *KEY, descending=[*(False for _ in key), True, False, False, False, False])
    fresh = (pl.col("time") - pl.col("time").shift(1).over(key) > window).fill_null(value=True) & ~pl.col("carried")
    timeline = timeline.with_columns(fresh=fresh, next=pl.col("time").shift(-1).over(key))
    run_number = pl.col("fresh").cast(pl.Int64).cum_sum().over(key)
    began = pl.coalesce("first_bad_at", "time").first().over([*key, "run"])
    return timeline.with_columns(run=run_number).with_columns(first_bad_at=began)
