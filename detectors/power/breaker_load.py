"""Circuits that carry more current than they may."""

from collections.abc import Mapping
from dataclasses import dataclass

import dataframely as dy
import polars as pl

from detectors.contract import Context, Detection, evidence, findings_frame, ordered
from detectors.stats.grades import GRADE_COLUMNS, graded_levels
from schemas.power import Power


@dataclass(frozen=True, kw_only=True)
class BreakerLoad:
    """A PDU carries more than its circuit is rated for, and its breaker will open: in hours, in minutes, at once.

    What fails: load was added, a second feed was lost and this one carries all, or a power limit was lifted.
    Formula: amps / rated_amps, where the rating is what the circuit may carry continuously after derating, as Redfish
    gives it (RatedCurrentAmps). A ticket above `ticket_share` and a page above `page_share` for `sustained_seconds`;
    ends after `clear_seconds` below.
    Defaults: 1.0 is the continuous limit, which by NEC is 80 % of the breaker (domain.md 4.3), so 1.25 is the breaker's
    own rating: above it the thermal trip runs. 60 s, as training swings within seconds and breakers take minutes at
    such an overload; 300 s clear: assumptions.
    Cannot see: a PDU whose meter gives no rating; one phase above the others where only their mean is metered; branches
    below the mains.
    """

    ticket_share: float = 1.0
    page_share: float = 1.25
    sustained_seconds: float = 60.0
    clear_seconds: float = 300.0

    @property
    def name(self) -> str:
        return "power.breaker_load"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return (Power,)

    @property
    def keeps(self) -> pl.Schema:
        """`GRADE_COLUMNS`: one row per PDU that was ever overloaded."""
        return GRADE_COLUMNS

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        """Findings on PDUs: breaker_overloaded."""
        del context
        share = pl.col("amps") / pl.col("rated_amps")
        grade = (share > self.ticket_share).cast(pl.Int64) + (share > self.page_share).cast(pl.Int64)
        samples = tables[Power].filter(pl.col("rated_amps") > 0).select(
            "time", "amps", "rated_amps", "watts", entity="pdu", share=share, grade=grade
        )  # fmt: skip
        if state.is_empty() and not (samples["grade"] > 0).any():
            return Detection(ordered(), state)
        changes, after = graded_levels(
            samples.sort("entity", "time"), state, for_seconds=self.sustained_seconds, clear_seconds=self.clear_seconds
        )
        page = pl.col("active") & (pl.col("severity") == "page")
        said = changes.with_columns(
            evidence("amps", "rated_amps", "watts"), code=pl.lit("above_continuous_rating"), score="share",
            threshold=pl.lit(self.ticket_share),
            action=pl.when(page).then(pl.lit("cap_power")).when("active").then(pl.lit("open_ticket")),
        )  # fmt: skip
        return Detection(ordered(findings_frame(said, self.name, "breaker_overloaded", "pdu")), after)
