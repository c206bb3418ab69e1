"""Branch valves that stand still while those of their peers follow the load."""

from collections.abc import Mapping
from dataclasses import dataclass

import dataframely as dy
import polars as pl

from detectors.contract import Context, Detection, evidence, findings_frame, ordered
from detectors.gpu.plates import PENDING_COLUMNS, together
from detectors.gpu.slots import GPU_ID
from detectors.levels import LEVEL_COLUMNS, levels
from schemas.coolant import ColdPlate, CoolantLoop
from schemas.gpu import Gpu

PENDING, LEVEL = "pending", "level"
SEEN = (
    "valve_percent", "peers_valve_percent", "power_watts", "peers_power_watts", "flow_liters_per_minute",
    "peers_flow_liters_per_minute",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ValveStuck:
    """The valve of one GPU's branch no longer moves: dirt, a dead actuator, a lost set-point.

    What it looks like: GPUs of one host that draw the same power have their valves at the same opening. A valve that
    sticks half closed starves its plate; one that sticks open is seen when the load changes, as the others follow the
    power of their GPUs and it does not, and it takes the flow that they leave.
    Formula: opening, in points of percent, against the median opening of the GPUs of its host whose power is within
    `power_share` of the host's median, its own too. Bad when it is more than `valve_points` away for
    `sustained_seconds`; ends after `clear_seconds` within that.
    A page when it is that much too far closed and its flow is below `flow_share` of the peers' median; else a ticket.
    Defaults: 15 points, as at 30 to 100 % for idle to full load the 15 % of power that are forgiven are 13 points; 30
    s, as a valve takes some 20 s to follow; flow share 0.7, the pump-loss rule of domain.md 4.6; one sample in 10 s, 4
    peers, 60 s: assumptions.
    Cannot see: valves without a position reading, or whose reading is the set-point and not the position (their plates
    show in gpu.thermal_resistance); a GPU that works alone on its host; all valves of a host.
    """

    valve_points: float = 15.0
    power_share: float = 0.15
    flow_share: float = 0.7
    peers_minimum: int = 4
    every_seconds: float = 10.0
    sustained_seconds: float = 30.0
    clear_seconds: float = 60.0

    @property
    def name(self) -> str:
        return "coolant.valve_stuck"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return (Gpu, ColdPlate, CoolantLoop)

    @property
    def keeps(self) -> pl.Schema:
        """Rows of the bucket that is not complete; per GPU whose valve was ever apart its level."""
        return pl.Schema({"row": pl.String(), **PENDING_COLUMNS, **LEVEL_COLUMNS})

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        """Findings on GPUs: valve_stuck."""
        pending = state.filter(row=PENDING).select(PENDING_COLUMNS.names())
        sampled = together(tables, pending, context, every_seconds=self.every_seconds)
        if sampled.waiting is pending:
            return Detection(ordered(), state)
        before = state.filter(row=LEVEL).select(LEVEL_COLUMNS.names())
        changes, after = levels(
            self._judged(sampled.gpus, before),
            before,
            for_seconds=self.sustained_seconds,
            clear_seconds=self.clear_seconds,
        )
        kept = [after.with_columns(row=pl.lit(LEVEL)), sampled.waiting.with_columns(row=pl.lit(PENDING))]
        state_after = pl.concat([pl.DataFrame(schema=self.keeps), *kept], how="diagonal").select(self.keeps.names())
        return Detection(self._findings(changes), state_after)

    def _judged(self, samples: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
        """entity, time, bad and evidence of the GPUs whose valve is apart here or has been before."""
        host = ["node", "time"]
        known = samples.filter(pl.col("valve_percent").is_not_null() & (pl.col("power_watts") > 0)).with_columns(
            GPU_ID, peers_power_watts=pl.col("power_watts").median().over(host)
        )
        alike = (pl.col("power_watts") / pl.col("peers_power_watts") - 1).abs() <= self.power_share
        rows = known.filter(alike).with_columns(
            peers=pl.len().over(host), peers_valve_percent=pl.col("valve_percent").median().over(host),
            peers_flow_liters_per_minute=pl.col("flow_liters_per_minute").median().over(host),
        ).filter(pl.col("peers") >= self.peers_minimum)  # fmt: skip
        away = pl.col("valve_percent") - pl.col("peers_valve_percent")
        rows = rows.with_columns(points=away, bad=away.abs() > self.valve_points)
        concerned = pl.concat([before["entity"], rows.filter("bad")["entity"]]).unique()
        return rows.filter(pl.col("entity").is_in(concerned.implode())).sort("entity", "time")

    def _findings(self, changes: pl.DataFrame) -> pl.DataFrame:
        closed = pl.col("points") < 0
        starved = pl.col("flow_liters_per_minute") < self.flow_share * pl.col("peers_flow_liters_per_minute")
        page = (closed & starved).fill_null(value=False)
        rows = changes.with_columns(
            code=pl.when(closed).then(pl.lit("too_far_closed")).otherwise(pl.lit("too_far_open")),
            severity=pl.when(page & pl.col("active")).then(pl.lit("page")).otherwise(pl.lit("ticket")),
            score=pl.col("points").abs(), threshold=pl.lit(self.valve_points),
            action=pl.when(pl.col("active") & page).then(pl.lit("cap_power"))
            .when("active").then(pl.lit("open_ticket")),
        ).with_columns(evidence(*SEEN))  # fmt: skip
        return ordered(findings_frame(rows, self.name, "valve_stuck", "gpu"))
