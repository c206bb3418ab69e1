"""A fibre against its baseline, for `hotspare cable`: the live detector, and every event beside its old self."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import polars as pl

from detectors.contract import Context
from detectors.fiber.advice import ADVICE, MEANING
from detectors.fiber.comparison import compared, exploded
from detectors.fiber.event_loss import EventLoss
from detectors.fiber.resolution import Resolution
from detectors.fiber.shot import EVENT_COLUMNS
from detectors.fiber.span import Span
from schemas.fiber import OtdrEvent, OtdrTrace
from schemas.tables import TABLE_BY_SCHEMA
from schemas.topology import LINK_COLUMNS, NODE_COLUMNS, Topology

KEY = {"cable": "cable", "fiber": "1", "direction": "AB", "wavelength_nanometers": 1310.0}
COMPARED = (
    "distance_meters", "loss_db_base", "loss_db", "loss_grown_db", "reflectance_db_base", "reflectance_db", "code",
    "signature", "advice",
)  # fmt: skip
OF_THE_CABLE = ("near end", "fibre", "far end")


@dataclass(frozen=True)
class Change:
    """findings: what the detector says, each with cause, code, severity, signature, advice, meaning and evidence.
    events: COMPARED, signature and advice only where something has grown. another_fibre: why it is not comparable.
    """

    findings: list[dict[str, Any]]
    events: list[dict[str, Any]]
    another_fibre: str | None = None

    @property
    def advice(self) -> str | None:
        """The most thorough of what is advised."""
        said = {finding["advice"] for finding in self.findings}
        return next((word for word in ("replace", "reseat", "clean") if word in said), None)


def change(before: Span, after: Span, detector: EventLoss, resolution: Resolution) -> Change:
    """Both in metres from the near end, so that another launch reel changes nothing."""
    first = datetime(2000, 1, 1, tzinfo=UTC)
    totals = before.total_measured == after.total_measured  # two ways of reckoning it are not compared
    shots = [
        _rows(span, first + timedelta(days=day), first=day == 0, total=totals)
        for day, span in enumerate((before, after))
    ]
    tables = {OtdrTrace: pl.concat(trace for trace, _ in shots), OtdrEvent: pl.concat(events for _, events in shots)}
    nowhere = Topology("one cable", pl.DataFrame(schema=NODE_COLUMNS), pl.DataFrame(schema=LINK_COLUMNS))
    context = Context(now=first + timedelta(days=2), began=first, topology=nowhere)
    found = detector.detect(tables, pl.DataFrame(schema=detector.keeps), context).findings.filter("active")
    findings = [_finding(row) for row in found.select("cause", "code", "severity", "evidence").iter_rows(named=True)]
    for finding in findings:
        if finding["cause"] == "fiber_length":
            ends = finding["evidence"]
            text = f"this fibre ends at {ends['end_meters']:.1f} m, its baseline at {ends['base_end_meters']:.1f} m"
            return Change([], [], f"the baseline is of another fibre: {text}")
    return Change(findings, _beside(before, after, detector, resolution))


def _rows(span: Span, time: datetime, *, first: bool, total: bool) -> tuple[pl.DataFrame, pl.DataFrame]:
    key = KEY | {"time": time}
    trace = {
        **key, "baseline": first, "pulse_nanoseconds": span.shot.pulse_nanoseconds,
        "group_index": span.shot.group_index, "sample_spacing_meters": span.shot.sample_spacing_meters,
        "total_loss_db": span.total_loss_db if total else None, "length_meters": span.length_meters,
    }  # fmt: skip
    traces, events = TABLE_BY_SCHEMA[OtdrTrace].columns, TABLE_BY_SCHEMA[OtdrEvent].columns
    rows = [{**key, **row} for row in _own_events(span).iter_rows(named=True)]
    return (
        pl.DataFrame([{name: trace.get(name) for name in traces}], schema=traces),
        pl.DataFrame([{name: row.get(name) for name in events} for row in rows], schema=events),
    )


def _own_events(span: Span) -> pl.DataFrame:
    """The end of the fibre is the cable's where no tail reel follows it; else its length says where it ends."""
    inside = span.events.filter(pl.col("role").is_in(OF_THE_CABLE if span.far_seen else (*OF_THE_CABLE, "end")))
    return inside.with_columns(distance_meters="position_meters").select(EVENT_COLUMNS.names())


def _finding(row: dict[str, Any]) -> dict[str, Any]:
    seen = msgspec.json.decode(row["evidence"])
    signature = seen.pop("signature", None)
    for name in ("fiber", "direction", "wavelength_nanometers", "baseline_at"):
        del seen[name]
    said = {"signature": signature, "advice": ADVICE.get(signature), "meaning": MEANING.get(signature)}
    return {**row, **said, "evidence": seen}


def _beside(before: Span, after: Span, detector: EventLoss, resolution: Resolution) -> list[dict[str, Any]]:
    now, base = (
        exploded(pl.DataFrame({"shot": [0], "events": [_own_events(span).to_struct("event")]}), pl.col("events"))
        for span in (after, before)
    )
    within = max(resolution.same_place_meters(span.shot) for span in (before, after))
    events = compared(
        now, base, pl.DataFrame({"shot": [0], "near": [within]}), reflectance_growth_db=detector.reflectance_growth_db,
        reflectance_limit_db=detector.reflectance_limit_db,
    )  # fmt: skip
    grown = (pl.col("loss_grown_db") >= detector.loss_growth_db).fill_null(value=False) | pl.col("reflects")
    told = events.with_columns(signature=pl.when(grown).then("signature"))
    return told.with_columns(
        advice=pl.col("signature").replace_strict(ADVICE, default=None, return_dtype=pl.String)
    ).select(COMPARED).to_dicts()  # fmt: skip
