"""GPUs that slow down because they are too hot."""

from collections.abc import Mapping
from dataclasses import dataclass

import dataframely as dy
import polars as pl

from detectors.contract import Context, Detection, evidence, findings_frame, ordered
from detectors.gpu.slots import slot_samples
from detectors.levels import LEVEL_COLUMNS, levels
from detectors.silence import seconds
from schemas.gpu import (
    CLOCKS_EVENT_HARDWARE_SLOWDOWN,
    CLOCKS_EVENT_HARDWARE_THERMAL,
    CLOCKS_EVENT_SOFTWARE_THERMAL,
    Gpu,
)

SEEN = (
    "clocks_event_reasons", "thermal_margin_celsius", "temperature_celsius", "memory_temperature_celsius",
    "sm_clock_megahertz",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ThermalThrottle:
    """A GPU's clocks are cut because its core or memory has reached a limit.

    What fails: flow, cold plate, thermal interface, supply temperature. What it looks like: the driver's own reasons,
    bit 0x20 (software thermal) or 0x40 (hardware thermal). Bit 0x8 (hardware slowdown) is set for heat and for power,
    so it counts only while the margin to the slowdown limit is at most `margin_celsius`. Bits 0x1 (idle), 0x4 (power
    cap) and 0x80 (power brake) are never heat. All are tested as bits of the mask.
    Formula: bad for `sustained_seconds` without a good sample between; ends when good for `clear_seconds`.
    Defaults: 5 s, because a plate without flow takes 16 s from 65 to 87 C at 700 W and throttles from then on, while
    a load step can touch the limit for a sample; 30 s clear. 3 C: an H100 slows at a margin of 0 to -2 C, and the
    reading is whole degrees. Margins and no absolute temperature: limits differ between boards (83 to 95 C).
    The margin alone never alarms: boards that do not support it report 0 or negative (gpud pull request 1208).
    Where the exporter gives no reasons (DCGM's are off by default), a sample is bad when the clock is below
    `clock_ratio` of the median of its host at that instant and the core is `hotter_kelvin` above the median core;
    either alone has other causes. 0.9 as in gpu.clock_loss; 10 K, as a limit lies 20 K above a well cooled core and a
    slowed one holds there; `peers_minimum` readings make a median. code: thermal_slowdown, or hot_and_slow without
    reasons.
    Cannot see: a whole host that is hot, where no reasons are given; heat before the limit (coolant detectors do);
    throttling between two samples.
    """

    sustained_seconds: float = 5.0
    clear_seconds: float = 30.0
    margin_celsius: float = 3.0
    clock_ratio: float = 0.9
    hotter_kelvin: float = 10.0
    peers_minimum: int = 4

    @property
    def name(self) -> str:
        return "gpu.thermal_throttle"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return (Gpu,)

    @property
    def keeps(self) -> pl.Schema:
        """`LEVEL_COLUMNS`: one row per GPU that has ever throttled."""
        return LEVEL_COLUMNS

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        del context
        reasons = pl.col("clocks_event_reasons")
        thermal = reasons.and_(CLOCKS_EVENT_SOFTWARE_THERMAL | CLOCKS_EVENT_HARDWARE_THERMAL) != 0
        near_limit = (pl.col("thermal_margin_celsius") <= self.margin_celsius).fill_null(value=False)
        slowed_by_heat = (reasons.and_(CLOCKS_EVENT_HARDWARE_SLOWDOWN) != 0) & near_limit
        rows, bad = tables[Gpu], thermal | slowed_by_heat
        if rows["clocks_event_reasons"].null_count():
            rows = rows.with_columns(hot_and_slow=self._hot_and_slow())
            bad = pl.when(reasons.is_null()).then("hot_and_slow").otherwise(bad)
        samples = slot_samples(rows, bad, state, *SEEN)
        changes, after = levels(samples, state, for_seconds=self.sustained_seconds, clear_seconds=self.clear_seconds)
        said = changes.with_columns(
            evidence(*SEEN), severity=pl.lit("page"), action=pl.lit("raise_flow"),
            score=seconds(pl.col("time") - pl.col("first_bad_at")),
            threshold=pl.lit(self.sustained_seconds),
            code=pl.when(reasons.is_null()).then(pl.lit("hot_and_slow")).otherwise(pl.lit("thermal_slowdown")),
        )  # fmt: skip
        return Detection(ordered(findings_frame(said, self.name, "gpu_thermal_throttle", "gpu")), after)

    def _hot_and_slow(self) -> pl.Expr:
        """Whether a sample is slower and hotter than the GPUs of its host at that instant; null where nobody knows."""
        clock, core, host = pl.col("sm_clock_megahertz"), pl.col("temperature_celsius"), ["node", "time"]
        slow = clock < self.clock_ratio * clock.median().over(host)
        hot = core >= core.median().over(host) + self.hotter_kelvin
        known = pl.min_horizontal(clock.count().over(host), core.count().over(host)) >= self.peers_minimum
        return pl.when(known).then(slow & hot)
