"""GPUs held down by the hardware power brake: the building's power, not the GPU's."""

from collections.abc import Mapping
from dataclasses import dataclass

import dataframely as dy
import polars as pl

from detectors.contract import Context, Detection, evidence, findings_frame, ordered
from detectors.gpu.slots import slot_samples
from detectors.levels import LEVEL_COLUMNS, levels
from detectors.silence import seconds
from schemas.gpu import CLOCKS_EVENT_HARDWARE_POWER_BRAKE, Gpu

SEEN = ("clocks_event_reasons", "sm_clock_megahertz", "power_watts")


@dataclass(frozen=True, kw_only=True)
class PowerBrake:
    """Something outside the GPU pulls its power-brake line: a power supply, a shelf, a PDU in trouble.

    What it looks like: bit 0x80 of the clocks event reasons, clocks at a fraction of their maximum, no XID. Nine
    nodes ran so for 36 hours after a power event with no alarm (NVSentinel issue 1666).
    Formula: bit 0x80 tested as a bit (other reasons may be set beside it), for `sustained_seconds`; ends when the bit
    has been away for `clear_seconds`.
    Defaults: 3 s, as supplies pull the line for tens of milliseconds on load steps; 30 s clear, as the line flaps
    (NVSentinel issue 1447 counts ten events a second).
    Cannot see: who pulls the line (correlation does, when GPUs of one PDU brake together); brakes between samples.
    """

    sustained_seconds: float = 3.0
    clear_seconds: float = 30.0

    @property
    def name(self) -> str:
        return "gpu.power_brake"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return (Gpu,)

    @property
    def keeps(self) -> pl.Schema:
        """`LEVEL_COLUMNS`: one row per GPU that has ever braked."""
        return LEVEL_COLUMNS

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        del context
        braked = pl.col("clocks_event_reasons").and_(CLOCKS_EVENT_HARDWARE_POWER_BRAKE) != 0
        samples = slot_samples(tables[Gpu], braked, state, *SEEN)
        changes, after = levels(samples, state, for_seconds=self.sustained_seconds, clear_seconds=self.clear_seconds)
        said = changes.with_columns(
            evidence(*SEEN), code=pl.lit("power_brake"), severity=pl.lit("page"), action=pl.lit("open_ticket"),
            score=seconds(pl.col("time") - pl.col("first_bad_at")),
            threshold=pl.lit(self.sustained_seconds),
        )  # fmt: skip
        return Detection(ordered(findings_frame(said, self.name, "gpu_power_brake", "gpu")), after)
