"""GPUs whose memory could not, or not yet, replace a bad row."""

from collections.abc import Mapping
from dataclasses import dataclass

import dataframely as dy
import polars as pl

from detectors.contract import Context, Detection, evidence, findings_frame, ordered
from detectors.gpu.slots import slot_samples
from detectors.levels import LEVEL_COLUMNS, levels
from schemas.gpu import Gpu

SEEN = ("rows_remapped_uncorrectable_total", "rows_remapped_correctable_total", "ecc_uncorrectable_total")


@dataclass(frozen=True, kw_only=True)
class RowRemapRule:
    """A flag of the GPU table and what it means. The flag's column is the finding's code."""

    flag: str
    severity: str
    action: str


RULES: tuple[RowRemapRule, ...] = (
    RowRemapRule(flag="row_remap_failure", severity="page", action="rma"),
    RowRemapRule(flag="row_remap_pending", severity="ticket", action="reset_gpu"),
)


@dataclass(frozen=True, kw_only=True)
class RowRemapFailure:
    """HBM replaces a row that had uncorrectable errors by a spare one at the next reset, until a bank has none left.

    What it looks like: `row_remap_failure` (the bank is out of spares: the vendor replaces the GPU) and, harmless by
    itself, `row_remap_pending` (a spare is set aside and waits for the next reset).
    Formula: the flag as reported; begins with the first true sample, ends with the next false one. Null says nothing.
    Defaults: failure pages and asks for RMA, pending is a ticket that asks for a reset when the job leaves: DCGM and
    gpud fail only the first, and evicting for the second was called too harsh (autopilot issue 55).
    Cannot see: errors that stay correctable; a bank close to its last spare.
    """

    rules: tuple[RowRemapRule, ...] = RULES

    @property
    def name(self) -> str:
        return "gpu.row_remap"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return (Gpu,)

    @property
    def keeps(self) -> pl.Schema:
        """`LEVEL_COLUMNS` for each code: one row per GPU that has ever had the flag."""
        return pl.Schema({"code": pl.String(), **LEVEL_COLUMNS})

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        del context
        found, kept = [], []
        for rule in self.rules:
            before = state.filter(code=rule.flag).drop("code")
            samples = slot_samples(tables[Gpu], pl.col(rule.flag), before, *SEEN)
            changes, after = levels(samples, before)
            said = changes.with_columns(
                evidence(*SEEN), code=pl.lit(rule.flag), severity=pl.lit(rule.severity), action=pl.lit(rule.action),
                score=pl.col("bad").cast(pl.Float64), threshold=pl.lit(1.0),
            )  # fmt: skip
            found.append(findings_frame(said, self.name, "gpu_memory", "gpu"))
            kept.append(after.select(pl.lit(rule.flag).alias("code"), pl.all()))
        return Detection(ordered(*found), pl.concat(kept).sort("code", "entity"))
