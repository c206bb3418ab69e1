"""Line voltage that dips without going away."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import dataframely as dy
import numpy as np
import polars as pl

from detectors.contract import Context, Detection, evidence, findings_frame, ordered
from detectors.stats.grades import GRADE_COLUMNS, graded_levels
from detectors.stats.scan import Arrays, Floats, scan, toward
from schemas.columns import UTC_MICROSECONDS
from schemas.power import Power

MEMORY = ("age_seconds", "volts_normal", "below_90_seconds", "below_80_seconds")
OUTPUTS = ("normal_volts", "share", "grade")


@dataclass(frozen=True, kw_only=True)
class PowerSag:
    """The voltage of a PDU sags: a fault elsewhere on the feeder, a big load that starts, a transfer switch that moves.

    What it looks like: volts, or the lowest half-cycle since the last sample, below its own normal; breaker closed.
    Supplies ride through what the ITIC curve allows and draw more current meanwhile.
    Formula: share = min(volts, volts_minimum) / normal; normal = mean over normal_seconds (growing up to it), held
    still while share < sag_share. share < sag_share is a ticket. It is a page where ITIC allows no more: share below
    deep_share at all, below short_share for more than short_seconds, below sag_share for more than long_seconds.
    Less than lost_share, or a breaker that is open, is a loss (power.domain_loss) and says nothing here.
    Defaults: ITIC allows 70 % for 0.5 s and 80 % for 10 s (domain.md 4.3), 90 % for ever. deep_share is the first,
    short_share 0.8 and short_seconds 10 the second, long_seconds 60 an assumption for 80 to 90 %; clear_seconds 30.
    Cannot see: sags between two samples of a meter without volts_minimum; a voltage that was low from the beginning.
    """

    sag_share: float = 0.9
    short_share: float = 0.8
    deep_share: float = 0.7
    lost_share: float = 0.5
    short_seconds: float = 10.0
    long_seconds: float = 60.0
    normal_seconds: float = 3600.0
    clear_seconds: float = 30.0

    name: ClassVar[str] = "power.sag"
    reads: ClassVar[tuple[type[dy.Schema], ...]] = (Power,)
    keeps: ClassVar[pl.Schema] = pl.Schema(
        {**GRADE_COLUMNS, "time": UTC_MICROSECONDS, **dict.fromkeys(MEMORY, pl.Float64())}
    )

    def detect(
        self,
        tables: Mapping[type[dy.Schema], pl.DataFrame],
        state: pl.DataFrame,
        context: Context,  # noqa: ARG002  # the protocol's
    ) -> Detection:
        """Findings on PDUs: power_sag."""
        closed = (pl.col("breaker") == "closed").fill_null(value=True)
        rows = tables[Power].filter(closed).select(
            "time", "volts", "volts_minimum", "amps", entity="pdu",
            lowest=pl.min_horizontal("volts", "volts_minimum"), usual=pl.coalesce("volts", "volts_minimum"),
        ).drop_nulls("lowest")  # fmt: skip
        walked, memory = scan(
            rows.sort("entity", "time"), state.select("entity", "time", *MEMORY),
            inputs=("lowest", "usual"), memory=MEMORY, outputs=OUTPUTS, step=self._step,
        )  # fmt: skip
        changes, after = graded_levels(
            walked.with_columns(pl.col("grade").cast(pl.Int64)), state.select(GRADE_COLUMNS.names()),
            clear_seconds=self.clear_seconds,
        )  # fmt: skip
        kept = memory.join(after, on="entity", how="left").select(self.keeps.names()).sort("entity")
        said = changes.with_columns(
            evidence("volts", "volts_minimum", "normal_volts", "amps"), code=pl.lit("sag"), score=1 - pl.col("share"),
            threshold=pl.lit(1 - self.sag_share), action=pl.when("active").then(pl.lit("open_ticket")),
        )  # fmt: skip
        return Detection(ordered(findings_frame(said, self.name, "power_sag", "pdu")), kept)

    def _step(self, memory: Arrays, sample: Arrays) -> tuple[Arrays, Arrays]:
        elapsed, normal = sample["elapsed_seconds"], memory["volts_normal"]
        age = np.where(np.isnan(elapsed), 0.0, memory["age_seconds"] + elapsed)
        share = sample["lowest"] / normal
        below: dict[str, Floats] = {}
        for name, limit in (("below_90_seconds", self.sag_share), ("below_80_seconds", self.short_share)):
            # How long it has been below, from the first sample that was.
            lasted = np.where(np.isnan(memory[name]), 0.0, memory[name] + np.nan_to_num(elapsed))
            below[name] = np.where(share < limit, lasted, np.nan)
        page = (
            (share < self.deep_share)
            | (below["below_80_seconds"] > self.short_seconds)
            | (below["below_90_seconds"] > self.long_seconds)
        )
        low = share < self.sag_share
        grade = np.where(share < self.lost_share, np.nan, low * (1.0 + page))
        grown = np.nan_to_num(elapsed / (np.minimum(age, self.normal_seconds) + elapsed))
        kept = toward(normal, sample["usual"], np.where(low, 0.0, grown))
        return {"age_seconds": age, "volts_normal": kept, **below}, {
            "normal_volts": np.where(np.isnan(normal), sample["usual"], normal), "share": share, "grade": grade,
        }  # fmt: skip
