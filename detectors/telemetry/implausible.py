"""A source whose rows the door refuses again and again, because no hardware can show such numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import dataframely as dy
import polars as pl

from detectors.contract import Context, Detection, evidence, findings_frame, ordered
from schemas.columns import UTC_MICROSECONDS
from schemas.intake import Quarantine


@dataclass(frozen=True, kw_only=True)
class ImplausibleTelemetry:
    """Values outside of what hardware can show: a broken sensor, a blank that an exporter gives out as data.

    What it looks like: 345 to 644,245,923 degrees on an H100 (dcgm-exporter issue 312), 4294967295 once in 176,000
    samples (issue 418). The door puts such rows into quarantine by their range rule (schemas/*.py).
    Formula: refused_minimum distinct instants with rows of one source refused for a range (rule "column|min" or
    "column|max") within window_seconds. Ends window_seconds after the last of them. Onset: the first of those instants.
    Defaults: 3 in 60 s (design.md section 2: the same minute as silence); one odd sample in 176,000 never comes thrice.
    Entity: "table:source"; the code is the rule broken last.
    Cannot see: values that are wrong and possible; refused rows without a time or a source that could be read.
    """

    refused_minimum: int = 3
    window_seconds: float = 60.0

    @property
    def name(self) -> str:
        return "telemetry.implausible"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return (Quarantine,)

    @property
    def keeps(self) -> pl.Schema:
        """The last instants (one less than refused_minimum, or the last) of every source that was refused lately.

        onset: of the level that holds, null while there is none.
        """
        return pl.Schema(
            {"entity": pl.String(), "time": UTC_MICROSECONDS, "rule": pl.String(), "onset": UTC_MICROSECONDS}
        )

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        window = timedelta(seconds=self.window_seconds)
        refused = tables[Quarantine].filter(pl.col("rule").str.contains(r"\|(min|max)$"))
        fresh = (
            refused.drop_nulls(["time", "table", "source"])
            .select("time", "rule", entity=pl.format("{}:{}", "table", "source"))
            .group_by("entity", "time").agg(pl.col("rule").min())
        )  # fmt: skip
        rows = pl.concat([state.with_columns(carried=True), fresh.with_columns(carried=False)], how="diagonal")
        rows = rows.sort("entity", "time", "carried", descending=[False, False, True])
        rows = rows.unique(["entity", "time"], keep="first", maintain_order=True)
        apart = (pl.col("time").diff() > window).over("entity")
        rows = rows.with_columns(run=apart.cum_sum().over("entity").fill_null(0))
        run = ["entity", "run"]
        first_of = pl.col("time").shift(self.refused_minimum - 1).over(run)
        often = ~pl.col("carried") & (pl.col("time") - first_of <= window)
        rows = rows.with_columns(
            onset=pl.coalesce(pl.col("onset").max().over(run), pl.when(often).then(first_of).min().over(run)),
            before=pl.col("onset").is_not_null().any().over(run),
            often=often.fill_null(value=False),
        )
        begins = rows.filter(pl.col("often") & ~pl.col("before")).unique(run, keep="first", maintain_order=True)
        last = rows.group_by(run, maintain_order=True).agg(pl.col("time", "rule", "onset").last())
        over = last.filter(pl.col("onset").is_not_null() & self._over(last, context, window))
        ends = over.with_columns(time=pl.col("time") + window)
        said = pl.concat(
            [begins.with_columns(active=pl.lit(value=True)), ends.with_columns(active=pl.lit(value=False))],
            how="diagonal",
        ).with_columns(
            evidence("rule"), entity="entity", code="rule", severity=pl.lit("ticket"), first_bad_at="onset",
            score=pl.lit(float(self.refused_minimum)), threshold=pl.lit(float(self.refused_minimum)),
            action=pl.when("active").then(pl.lit("open_ticket")),
        )  # fmt: skip
        kept = self._kept(rows, context, window)
        return Detection(ordered(findings_frame(said, self.name, "telemetry_implausible", "source")), kept)

    @staticmethod
    def _over(last: pl.DataFrame, context: Context, window: timedelta) -> pl.Series:
        """Runs that are over: a later one has begun, or the deadline is met."""
        later = pl.col("run") < pl.col("run").max().over("entity")
        return last.select(over=later | (pl.col("time") + window < context.now))["over"]

    def _kept(self, rows: pl.DataFrame, context: Context, window: timedelta) -> pl.DataFrame:
        """The tails of the runs that go on."""
        tail = rows.filter(pl.col("run") == pl.col("run").max().over("entity"))
        tail = tail.filter(pl.col("time").max().over("entity") + window >= context.now)
        tail = tail.group_by("entity", maintain_order=True).tail(max(1, self.refused_minimum - 1))
        return tail.select(self.keeps.names()).sort("entity", "time")
