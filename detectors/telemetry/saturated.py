"""Counters that have reached their top and stand there: nothing more can be counted, and nothing looks wrong."""

from collections.abc import Mapping
from dataclasses import dataclass

import dataframely as dy
import polars as pl

from detectors.contract import NO_FINDINGS, Context, Detection, evidence, findings_frame, ordered
from detectors.stats.grades import GRADE_COLUMNS, fold, graded_levels
from schemas.columns import UTC_MICROSECONDS
from schemas.fabric import CLASSIC_COUNTER_BITS, FabricPort
from schemas.gpu import Gpu
from schemas.tables import TABLE_BY_SCHEMA, Table

# NVML gives the PCIe replay counter as 32 bits; the GPU's other counters have 64.
COUNTER_BITS: Mapping[type[dy.Schema], Mapping[str, int]] = {
    FabricPort: CLASSIC_COUNTER_BITS,
    Gpu: {"pcie_replay_total": 32},
}
BETWEEN = "\x1f"  # between the parts of an entity's name
NO_SAMPLES = pl.DataFrame(
    schema={
        "entity": pl.String(), "time": UTC_MICROSECONDS, "value": pl.Float64(), "top": pl.Float64(),
        "grade": pl.Int64(),
    }
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SaturatedCounters:
    """A counter of a source stands at the highest number it can hold, so that errors go on unseen.

    What fails: InfiniBand's classic PortCounters stop at 15, 255, 65535 or 4294967295 and do not wrap (IBA volume 1,
    16.1.3.5); exporters show the last number for ever (infiniband-exporter issue 12). Whoever looks at increments sees
    a perfect port.
    Formula: value = 2^bits - 1 in two samples in a row, of a port that says its counters are classic, or of the 32-bit
    PCIe replay counter. Begins with the sample that comes at least for_seconds after the first one at the top; ends
    with the first sample below the top, which is what clearing the counter gives.
    Defaults: for_seconds 1, less than any interval of ports: the second sample. Widths: schemas.fabric.
    Entity: "table:source", one statement a device however many of its counters stand; the code names the counter.
    Cannot see: ports that do not say how far their counters reach, as the same 65535 is a plain count of a wide one.
    """

    for_seconds: float = 1.0

    @property
    def name(self) -> str:
        return "telemetry.saturated"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return tuple(COUNTER_BITS)

    @property
    def keeps(self) -> pl.Schema:
        """`GRADE_COLUMNS`: one row per counter that has ever been at its top."""
        return GRADE_COLUMNS

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        del context
        samples = [
            _samples(tables[schema], TABLE_BY_SCHEMA[schema], bits, state) for schema, bits in COUNTER_BITS.items()
        ]
        changes, after = graded_levels(pl.concat(samples), state, for_seconds=self.for_seconds)
        if changes.is_empty():
            return Detection(NO_FINDINGS, after)
        wholes = fold(_with_whole(changes), _with_whole(state.filter("ticket_active")))
        said = wholes.with_columns(port=_part(2), counter=_part(3)).with_columns(
            evidence("port", "counter", "value", "top"), code="counter", score="value", threshold="top",
            action=pl.when("active").then(pl.lit("open_ticket")),
        )  # fmt: skip
        return Detection(ordered(findings_frame(said, self.name, "counter_saturated", "source")), after)


def _samples(rows: pl.DataFrame, table: Table, bits: Mapping[str, int], state: pl.DataFrame) -> pl.DataFrame:
    """Samples of the counters that are at their top in these rows or have been before."""
    tops = {name: 2**width - 1 for name, width in bits.items()}
    if table.schema is FabricPort:
        rows = rows.filter(pl.col("counter_width") == "classic")
    unit = next(name for name in table.key if name != table.source)
    place = pl.concat_str(pl.lit(table.name), table.source, pl.col(unit).cast(pl.String), separator=BETWEEN)
    at_top = rows.filter(pl.any_horizontal(pl.col(name) >= top for name, top in tops.items())).select(place=place)
    known = state["entity"].str.extract(f"^(.*){BETWEEN}[^{BETWEEN}]*$")
    concerned = pl.concat([at_top["place"], known]).unique()
    if concerned.is_empty():
        return NO_SAMPLES
    long = (
        rows.select(pl.col(table.time), *tops, place=place)
        .filter(pl.col("place").is_in(concerned.implode()))
        .unpivot(list(tops), index=["place", table.time], variable_name="counter", value_name="value")
        .drop_nulls("value")
    )
    top = pl.col("counter").replace_strict(tops, return_dtype=pl.Int64)
    return long.select(
        pl.concat_str("place", "counter", separator=BETWEEN).alias("entity"), time=table.time,
        value=pl.col("value").cast(pl.Float64), top=top.cast(pl.Float64),
        grade=(pl.col("value") >= top).cast(pl.Int64),
    ).sort("entity", "time")  # fmt: skip


def _with_whole(parts: pl.DataFrame) -> pl.DataFrame:
    words = pl.col("entity").str.split(BETWEEN)
    return parts.with_columns(whole=pl.concat_str(words.list.get(0), words.list.get(1), separator=":"))


def _part(number: int) -> pl.Expr:
    return pl.col("part").str.split(BETWEEN).list.get(number)
