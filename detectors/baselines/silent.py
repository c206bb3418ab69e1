"""The null detector: it says nothing, and shows what a score is worth when nothing is said."""

from collections.abc import Mapping
from dataclasses import dataclass

import dataframely as dy
import polars as pl

from detectors.contract import FINDING_COLUMNS, Context, Detection


@dataclass(frozen=True, kw_only=True)
class Silent:
    """Never finds anything."""

    @property
    def name(self) -> str:
        return "baseline.null"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return ()

    @property
    def keeps(self) -> pl.Schema:
        return pl.Schema({"entity": pl.String()})

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        del tables, context
        return Detection(pl.DataFrame(schema=FINDING_COLUMNS), state)
