"""GPUs whose memory could not, or not yet, replace a bad row."""

from collections.abc import Mapping
from dataclasses import dataclass

import dataframely as dy
import polars as pl

from detectors.contract import Context, Detection, evidence, findings_frame, ordered
from detectors.gpu.slots import slot_samples
from detectors.stats.grades import GRADE_COLUMNS, graded_levels
from schemas.gpu import Gpu

SEEN = ("rows_remapped_uncorrectable_total", "rows_remapped_correctable_total", "ecc_uncorrectable_total")
PENDING, FAILURE = 1, 2
GRADE = (
    pl.when("row_remap_failure").then(FAILURE)
    .when("row_remap_pending").then(PENDING)
    .when(pl.any_horizontal(pl.col("row_remap_failure", "row_remap_pending").is_not_null())).then(0)
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RowRemapFailure:
    """HBM replaces a row that had uncorrectable errors by a spare one at the next reset, until a bank has none left.

    What it looks like: `row_remap_failure` (the bank is out of spares: the vendor replaces the GPU) and, harmless by
    itself, `row_remap_pending` (a spare is set aside and waits for the next reset).
    Formula: one level per GPU in two grades, failure over pending; the flag that holds is its code. It begins with the
    first true sample and ends with the first at which no flag is true and one is false. Two nulls say nothing.
    Defaults: failure pages and asks for RMA, pending is a ticket that asks for a reset when the job leaves: DCGM and
    gpud fail only the first, and evicting for the second was called too harsh (autopilot issue 55).
    Cannot see: errors that stay correctable; a bank close to its last spare.
    """

    @property
    def name(self) -> str:
        return "gpu.row_remap"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return (Gpu,)

    @property
    def keeps(self) -> pl.Schema:
        """`GRADE_COLUMNS`: one row per GPU that has ever had a flag."""
        return GRADE_COLUMNS

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        del context
        samples = slot_samples(tables[Gpu], GRADE > 0, state, *SEEN, grade=GRADE)
        changes, after = graded_levels(samples.drop("bad"), state)
        failing = pl.when(pl.col("grade") > 0).then("grade").otherwise("was") == FAILURE
        said = changes.with_columns(
            evidence(*SEEN),
            code=pl.when(failing).then(pl.lit("row_remap_failure")).otherwise(pl.lit("row_remap_pending")),
            action=pl.when(failing).then(pl.lit("rma")).otherwise(pl.lit("reset_gpu")),
            score=pl.col("grade").cast(pl.Float64),
            threshold=pl.lit(1.0),
        )
        return Detection(ordered(findings_frame(said, self.name, "gpu_memory", "gpu")), after)
