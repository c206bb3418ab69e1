"""Acceptance of a fibre from one shot: each event against a limit, and one verdict for the whole."""

from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

Verdict = Literal["PASS", "FAIL", "UNRESOLVABLE"]
END_OF_FIBER, OUT_OF_RANGE = "E", "O"
SATURATED = "2"


@dataclass(frozen=True, kw_only=True)
class Acceptance:
    """What is measured: the loss of each connector and splice, their reflectance, and whether the end was seen.

    connector_loss_db 0.75: mated pair; splice_loss_db 0.3 (TIA-568, domain.md 4.5). reflectance_db -35: the looser of
    the limits in use (multimode; -45 is asked of single mode). Reflective events are taken for connectors.

    UNRESOLVABLE is the honest answer where the shot does not tell: no end of fibre (the trace ran out, code O), or no
    event at all. What it cannot see: the two end connectors without launch and tail cords, so they are not judged;
    true splice loss from one direction (a gainer passes here; the mean of both directions decides).
    """

    connector_loss_db: float = 0.75
    splice_loss_db: float = 0.3
    reflectance_db: float = -35.0

    def judge(self, events: pl.DataFrame) -> tuple[Verdict, pl.DataFrame]:
        """The verdict, and the events of one shot (schemas.fiber.OtdrEvent) with limit_db, verdict and reason."""
        kind, found = pl.col("code").str.slice(0, 1), pl.col("code").str.slice(1, 1)
        reflective = kind.is_in(["1", SATURATED]).fill_null(value=False)
        is_end = found.is_in([END_OF_FIBER, OUT_OF_RANGE]).fill_null(value=False)
        at_launch = pl.col("distance_meters") <= 0
        limit = pl.when(reflective).then(self.connector_loss_db).otherwise(self.splice_loss_db)
        too_lossy = pl.col("loss_db") > limit
        too_bright = pl.col("reflectance_db") > self.reflectance_db
        judged = events.with_columns(
            limit_db=pl.when(is_end | at_launch).then(None).otherwise(limit),
            reason=pl.when(found == OUT_OF_RANGE).then(pl.lit("the trace runs out before the fibre ends"))
            .when(is_end).then(pl.lit("end of fibre, not judged"))
            .when(at_launch).then(pl.lit("launch, not judged"))
            .when(too_lossy).then(pl.format("loses {} dB, limit {}", pl.col("loss_db").round(3), limit))
            .when(too_bright).then(pl.format("reflects {} dB, limit {}", "reflectance_db", self.reflectance_db)),
            verdict=pl.when(is_end | at_launch).then(pl.lit("-"))
            .when((too_lossy | too_bright).fill_null(value=False)).then(pl.lit("FAIL"))
            .otherwise(pl.lit("PASS")),
        )  # fmt: skip
        return self._whole(judged), judged

    @staticmethod
    def _whole(judged: pl.DataFrame) -> Verdict:
        if "FAIL" in judged["verdict"]:
            return "FAIL"
        ends = judged["code"].str.slice(1, 1) if judged.height else pl.Series([], dtype=pl.String)
        return "PASS" if END_OF_FIBER in ends else "UNRESOLVABLE"


def rejected_share(verdicts: list[Verdict]) -> float | None:
    """Share of a batch that failed, of those that could be judged."""
    judged: list[Any] = [verdict for verdict in verdicts if verdict != "UNRESOLVABLE"]
    return judged.count("FAIL") / len(judged) if judged else None
