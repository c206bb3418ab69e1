"""Fans, supplies and sensors of a box that its own controller calls critical."""

from collections.abc import Mapping
from dataclasses import dataclass

import dataframely as dy
import polars as pl

from detectors.contract import NO_FINDINGS, Context, Detection, evidence, findings_frame, ordered
from detectors.levels import LEVEL_COLUMNS, levels
from schemas.hardware import HardwareSensor

SEEN = ("sensor", "health", "temperature_celsius", "fan_rpm", "fan_percent", "watts", "volts")


@dataclass(frozen=True, kw_only=True)
class HardwareHealth:
    """A fan bearing wears out, a supply loses its output or its feed: the box lives on what is left.

    What it looks like: the management controller, which knows the part's limits, calls it critical (Redfish
    Status.Health; ibswinfo's status that is not OK) while everything else goes on: the second supply carries the load,
    the other fans turn faster. The next failure takes the box, so it is work for the day.
    Formula: health is critical in every sample of `sustained_seconds`; ends after `clear_seconds` without.
    Defaults: 30 s, so that with the usual minute between samples two agree: a controller that restarts calls its
    sensors critical once. A warning is kept in the table and is no finding: thresholds of vendors differ.
    Entity: the node, switch or CDU; the code is the sensor's name.
    Cannot see: controllers that say no health (ibswinfo's fan speeds without a status); a part that fails together
    with its controller.
    """

    sustained_seconds: float = 30.0
    clear_seconds: float = 30.0

    @property
    def name(self) -> str:
        return "hardware.health"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return (HardwareSensor,)

    @property
    def keeps(self) -> pl.Schema:
        """`LEVEL_COLUMNS`: one row per sensor that has ever been critical; entity is "device|sensor"."""
        return LEVEL_COLUMNS

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        rows = tables[HardwareSensor].filter(pl.col("health").is_not_null())
        rows = rows.with_columns(entity=pl.format("{}|{}", "device", "sensor"), bad=pl.col("health") == "critical")
        concerned = pl.concat([state["entity"], rows.filter("bad")["entity"]]).unique()
        rows = rows.filter(pl.col("entity").is_in(concerned.implode()))
        samples = rows.select("entity", "time", "bad", "device", *SEEN)
        changes, after = levels(samples, state, for_seconds=self.sustained_seconds, clear_seconds=self.clear_seconds)
        if changes.is_empty():
            return Detection(NO_FINDINGS, after)
        said = changes.with_columns(
            evidence(*SEEN), entity="device", code="sensor", severity=pl.lit("ticket"),
            action=pl.when("active").then(pl.lit("open_ticket")),
        )  # fmt: skip
        loops = [name for kind, name in context.topology.nodes_by_domain if kind == "cdu"]
        boxes = {"switch": context.topology.switches, "cdu": loops}
        others = ~pl.col("entity").is_in([name for names in boxes.values() for name in names])
        found = [
            findings_frame(said.filter(pl.col("entity").is_in(list(names))), self.name, "hardware_degraded", kind)
            for kind, names in boxes.items()
        ]
        nodes = findings_frame(said.filter(others), self.name, "hardware_degraded", "node")
        return Detection(ordered(nodes, *found), after)
