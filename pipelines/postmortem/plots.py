"""What to look at for each cause, and its picture: the root against its peers, as SVG without anything from outside."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from html import escape

import polars as pl

from pipelines.bundles.bundle import Bundle
from schemas.causes import CAUSE_BY_NAME
from schemas.tables import TABLE_BY_NAME

BUCKETS = 240
ROOTS_MAXIMUM = 4
WIDTH, HEIGHT, LEFT, RIGHT, BOTTOM, TOP = 720, 220, 100, 12, 30, 14


PLATES = ("cold_plate_clogged", "valve_stuck")
SLOW = ("gpu_straggler", "job_hang", "gpu_hang")


@dataclass(frozen=True, kw_only=True)
class Look:
    """One quantity of a table that shows a fault of these kinds of root, or of these causes alone."""

    table: str
    column: str
    kinds: tuple[str, ...]
    causes: tuple[str, ...] = ()


LOOKS: tuple[Look, ...] = (
    Look(table="power", column="watts", kinds=("pdu",)),
    Look(table="power", column="volts", kinds=("pdu",)),
    Look(table="coolant_pump", column="speed_rpm", kinds=("cdu",), causes=("coolant_pump_failure",)),
    Look(table="coolant_loop", column="flow_liters_per_minute", kinds=("cdu",)),
    Look(table="coolant_loop", column="supply_celsius", kinds=("cdu",)),
    Look(table="coolant_loop", column="level_percent", kinds=("cdu",), causes=("coolant_leak",)),
    Look(table="coolant_loop", column="conductivity_us_per_cm", kinds=("cdu",), causes=("coolant_chemistry",)),
    Look(table="gpu", column="temperature_celsius", kinds=("gpu", "node")),
    Look(table="gpu", column="sm_clock_megahertz", kinds=("gpu", "node")),
    Look(table="gpu", column="power_watts", kinds=("gpu", "node")),
    Look(table="gpu", column="rows_remapped_uncorrectable_total", kinds=("gpu",), causes=("gpu_memory",)),
    Look(table="cold_plate", column="flow_liters_per_minute", kinds=("gpu",), causes=PLATES),
    Look(table="heartbeat", column="compute_seconds", kinds=("gpu", "job"), causes=SLOW),
    Look(table="gpu", column="utilization_percent", kinds=("job",)),
    Look(table="optic", column="receive_power_dbm", kinds=("link", "cable")),
    Look(table="fabric_port", column="link_downed_total", kinds=("link", "cable", "switch")),
    Look(table="fabric_port", column="symbol_error_total", kinds=("link", "cable", "switch")),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Plot:
    """title, unit. roots: name, time, value; peers: time, low, middle, high (10 %, median, 90 % of all others)."""

    title: str
    unit: str
    roots: pl.DataFrame
    peers: pl.DataFrame


@dataclass(frozen=True, kw_only=True)
class Marks:
    """Instants on the axis of time: from begin to end, and what happened between."""

    onset: datetime
    detected: datetime
    ended: datetime | None
    begin: datetime
    end: datetime


def plots(bundle: Bundle) -> tuple[Plot, ...]:
    """Those that have something to show."""
    incident = bundle.incident
    chosen = [
        look for look in LOOKS if incident.root_kind in look.kinds and incident.cause in (look.causes or CAUSE_BY_NAME)
    ]
    found = (_plot(bundle, look) for look in chosen)
    return tuple(plot for plot in found if not plot.roots.is_empty() or not plot.peers.is_empty())


def _plot(bundle: Bundle, look: Look) -> Plot:
    table = TABLE_BY_NAME[look.table]
    manifest = bundle.manifest
    metadata = table.schema.columns()[look.column].metadata or {}
    rows = bundle.tables.get(look.table)
    if rows is None:
        rows = pl.DataFrame(schema=table.columns)
    span = (manifest.ends_at - manifest.starts_at).total_seconds()
    every = f"{max(1, round(span / BUCKETS))}s"
    rows = rows.select(
        pl.col(table.time).dt.truncate(every).alias("time"), _name(look, bundle).alias("name"),
        pl.col(look.column).cast(pl.Float64).alias("value"),
    ).drop_nulls()  # fmt: skip
    series = rows.group_by("name", "time").agg(pl.col("value").mean()).sort("name", "time")
    mine = pl.col("name").is_in(list(bundle.incident.roots))
    peers = series.filter(~mine).group_by("time").agg(
        low=pl.col("value").quantile(0.1), middle=pl.col("value").median(), high=pl.col("value").quantile(0.9)
    ).sort("time")  # fmt: skip
    shown = sorted(set(series.filter(mine)["name"].to_list()))[:ROOTS_MAXIMUM]
    return Plot(
        title=f"{look.table}: {look.column.replace('_', ' ')}", unit=metadata["unit"],
        roots=series.filter(pl.col("name").is_in(shown)), peers=peers,
    )  # fmt: skip


def _name(look: Look, bundle: Bundle) -> pl.Expr:
    """The entity of the incident's root kind that a row is about."""
    kind = bundle.incident.root_kind
    if kind == "gpu":
        return pl.format("{}/{}", "node", "gpu")
    if kind in {"link", "cable"}:
        ends = {
            f"{row['device']}:{row['port']}": row["cable"]
            for row in bundle.topology.ports.iter_rows(named=True)
        }  # fmt: skip
        return pl.format("{}:{}", "device", "port").replace_strict(ends, default=None, return_dtype=pl.String)
    return {"switch": pl.col("device"), "job": pl.lit("all") if look.table == "gpu" else pl.col("job")}.get(
        kind, pl.col(kind)
    )


def svg(plot: Plot, marks: Marks) -> str:
    """A picture that says its axes, its onset, its detection and its end; colours come from the page's style."""
    values = pl.concat([plot.roots["value"], *(plot.peers[name] for name in ("low", "middle", "high"))])
    low, high = _range(values)
    begin, end = marks.begin, marks.end
    span = max((end - begin).total_seconds(), 1.0)

    def x(time: datetime) -> float:
        return LEFT + (time - begin).total_seconds() / span * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return TOP + (high - value) / (high - low) * (HEIGHT - TOP - BOTTOM)

    parts = [f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(plot.title)}">']
    for value in (low, (low + high) / 2, high):
        at = f"{y(value):.1f}"
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}"/>')
        parts.append(
            f'<text class="axis" x="{LEFT - 8}" y="{y(value) + 5:.1f}" text-anchor="end">{_number(value)}</text>'
        )
    shape = "%H:%M:%S" if span < 3600 else "%H:%M"
    for time in (begin, begin + (end - begin) / 2, end):
        anchor = "start" if time == begin else "end" if time == end else "middle"
        parts.append(
            f'<text class="axis" x="{x(time):.1f}" y="{HEIGHT - 6}" text-anchor="{anchor}">{time:{shape}}</text>'
        )
    if not plot.peers.is_empty():
        up = [f"{x(time):.1f},{y(value):.1f}" for time, value in plot.peers.select("time", "high").iter_rows()]
        down = [f"{x(time):.1f},{y(value):.1f}" for time, value in plot.peers.select("time", "low").iter_rows()]
        parts.append(f'<polygon class="band" points="{" ".join([*up, *reversed(down)])}"/>')
        parts.append(f'<polyline class="peer" points="{_points(plot.peers, "middle", x, y)}"/>')
    for kind, moment in (("onset", marks.onset), ("detected", marks.detected), ("ended", marks.ended)):
        if moment is not None and begin <= moment <= end:
            at = f"{x(moment):.1f}"
            parts.append(f'<line class="{kind}" x1="{at}" x2="{at}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
    for number, (name, rows) in enumerate(plot.roots.group_by("name", maintain_order=True)):
        title = f"<title>{escape(str(name[0]))}</title>"
        parts.append(f'<polyline class="root root-{number}" points="{_points(rows, "value", x, y)}">{title}</polyline>')
    return "".join([*parts, "</svg>"])


def _points(rows: pl.DataFrame, column: str, x: Callable[[datetime], float], y: Callable[[float], float]) -> str:
    return " ".join(f"{x(time):.1f},{y(value):.1f}" for time, value in rows.select("time", column).iter_rows())


def _range(values: pl.Series) -> tuple[float, float]:
    """From lowest to highest, with room above and below, and never empty."""
    low, high = values.min(), values.max()
    if not isinstance(low, float) or not isinstance(high, float):
        return 0.0, 1.0
    room = (high - low) * 0.08 or max(abs(high) * 0.05, 1.0)
    return (max(low - room, 0.0) if low >= 0 else low - room), high + room


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
