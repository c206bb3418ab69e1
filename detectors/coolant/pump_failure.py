"""A pump that stops takes its plates' flow with it, and the GPUs have seconds."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

import dataframely as dy
import numpy as np
import polars as pl

from detectors.contract import NO_FINDINGS, Context, Detection, evidence, findings_frame, ordered
from detectors.coolant.loop_state import level_of, run_start, stored
from detectors.coolant.plate_watch import WATCH_COLUMNS, Limits, follow
from detectors.coolant.time_left import GPU_WATTS, SHUTDOWN_CELSIUS, THROTTLE_CELSIUS
from detectors.levels import LEVEL_COLUMNS, levels
from detectors.planned import PLAN_COLUMNS, during, loops_in, still_needed, with_windows
from detectors.silence import intervals, seconds
from detectors.stats.scan import Arrays, scan, toward, weight_of
from detectors.stats.sorted_state import fitted
from schemas.columns import UTC_MICROSECONDS
from schemas.coolant import CoolantLoop, CoolantPump
from schemas.job import Maintenance

LOOP_MEMORY = ("flow_normal", "rise_normal", "rise_before")
LOOP_OUTPUTS = ("normal_flow_liters_per_minute", "rise_over_normal_kelvin", "rise_kelvin_per_second")
PUMP_MEMORY = ("speed_normal", "power_normal", "speed_rpm", "power_watts")
NO_PUMP = ""


@dataclass(frozen=True, kw_only=True)
class PumpFailure:
    """A CDU's pump stops, wholly or in part, and the flow of its loop falls.

    What fails: a pump's motor, drive, coupling or feed. By the affinity laws flow goes with speed and power with its
    cube; with one of two parallel pumps standing still, some 60 % of the flow is left, and GPUs find a new balance.
    Cold plates hold about 510 J/K (domain.md 4.6), so a 700 W GPU warms by 1.4 K/s without flow.

    Formula: normal = exponentially weighted mean over normal_seconds, held still while the value is abnormal.
    A loop sample is suspect when flow < (1 - flow_drop / 2) normal and bad when flow < (1 - flow_drop) normal, while
    a pump's speed or power is below its own normal by more than pump_drop, having fallen no longer than
    together_seconds before the flow did. A pump that has missed a sample while another of its CDU goes on counts as
    fallen since then: a drive that loses its feed says nothing more. Where no pump has reported for
    pump_silent_seconds, a rise of return over supply by rise_kelvin stands in for it. The level begins with a bad
    sample after a suspect one, so that one odd sample is never enough; it ends when samples have not been suspect for
    clear_seconds.
    Not a failure: what happens in maintenance of the CDU, or of the superblock or pod that holds all its nodes, until
    clear_seconds after it. But a loop with less than planned_flow of its normal whose return is hotter than usual by
    rise_kelvin is one then too: heat that nobody carries away was not planned.

    flow_drop 0.3: pump-loss rule of domain.md 4.6. pump_drop 0.15, its half: the pump moves before the flow.
    power_drop 0.4: what a speed lower by 0.15 costs, 1 - 0.85^3. normal_seconds 60: both pumps driven down slowly
    (half the speed over five minutes) stay within 17 % of such a normal. planned_flow 0.5: one of two pumps leaves 0.6.
    Time left: the plates warm from where full flow had them as detectors.coolant.time_left says, at the flow that is
    left; at none while it still falls by falling_share a sample and no pump goes on. throttles_at and shuts_down_at
    are when a GPU of gpu_watts meets the limits (domain.md 4.1), null when it never does, and seconds_to_* how long
    that is after the first statement. Said again when they move by restate_seconds and restate_share of what is left,
    come up, or go away; not while the balance is less than withdraw_kelvin below the limit (all assumptions).

    Cannot see: a pump that fails over many minutes; a lost pump whose peers make up for it (flow is what counts).
    Flow that falls while the pumps run steadily is a restriction, another detector's.
    """

    flow_drop: float = 0.3
    pump_drop: float = 0.15
    power_drop: float = 0.4
    normal_seconds: float = 60.0
    together_seconds: float = 60.0
    pump_silent_seconds: float = 5.0
    rise_kelvin: float = 1.0
    planned_flow: float = 0.5
    clear_seconds: float = 5.0
    gpu_watts: float = GPU_WATTS
    throttle_celsius: float = THROTTLE_CELSIUS
    shutdown_celsius: float = SHUTDOWN_CELSIUS
    falling_share: float = 0.02
    restate_seconds: float = 5.0
    restate_share: float = 0.25
    withdraw_kelvin: float = 1.0

    name: ClassVar[str] = "coolant.pump_failure"
    reads: ClassVar[tuple[type[dy.Schema], ...]] = (CoolantLoop, CoolantPump, Maintenance)
    # One row per CDU (pump = "") and one per pump: the memory of its baselines and, for a CDU, the level. One row per
    # open plan, without a pump.
    keeps: ClassVar[pl.Schema] = pl.Schema(
        {
            "cdu": pl.String(), "pump": pl.String(), "time": UTC_MICROSECONDS,
            **dict.fromkeys((*LOOP_MEMORY, *PUMP_MEMORY), pl.Float64()),
            "fell_since": UTC_MICROSECONDS, "low_since": UTC_MICROSECONDS, "suspect_since": UTC_MICROSECONDS,
            **{f"level_{name}": dtype for name, dtype in LEVEL_COLUMNS.items() if name != "entity"},
            **WATCH_COLUMNS, **PLAN_COLUMNS,
        }
    )  # fmt: skip

    def detect(
        self,
        tables: Mapping[type[dy.Schema], pl.DataFrame],
        state: pl.DataFrame,
        context: Context,
    ) -> Detection:
        """Findings on CDUs: coolant_pump_failure."""
        if all(tables[schema].is_empty() for schema in self.reads) and not state["pump"].null_count():
            return Detection(NO_FINDINGS, state)
        plans = with_windows(state.filter(pl.col("pump").is_null()).select(PLAN_COLUMNS.names()), tables[Maintenance])
        pumps, pump_state = self._pumps(tables[CoolantPump], state.filter(pl.col("pump") != NO_PUMP))
        loops_before = state.filter(pl.col("pump") == NO_PUMP)
        loops, loop_memory = self._loops(tables[CoolantLoop], loops_before)
        silent_after = intervals(1, context.intervals_seconds["coolant_pump"])
        judged, after = self._judge(loops, pumps, loops_before, silent_after)
        judged = self._unplanned(judged, loops_in(plans, context.topology))
        changes, level_after = levels(judged, level_of(loops_before), clear_seconds=self.clear_seconds)
        watched = loops_before.select(pl.col("cdu").alias("entity"), *WATCH_COLUMNS)
        said, watched = follow(judged, changes, watched, self._limits())
        loop_state = (
            loop_memory.join(after, on="entity", how="left")
            .join(stored(level_after), on="entity", how="left")
            .join(watched, on="entity", how="left")
            .with_columns(cdu="entity", pump=pl.lit(NO_PUMP))
        )
        clear = timedelta(seconds=self.clear_seconds)
        parts = (loop_state, pump_state, still_needed(plans, context.now, clear))
        kept = pl.concat([fitted(part, self.keeps) for part in parts]).sort("cdu", "pump", *PLAN_COLUMNS.names())
        return Detection(self._findings(changes, judged, said), kept)

    def _limits(self) -> Limits:
        return Limits(**{name: getattr(self, name) for name in Limits.__dataclass_fields__})

    def _pumps(self, rows: pl.DataFrame, before: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Each pump's samples with how far it fell below its normal and since when; and the pumps' state."""
        named = pl.concat_str("cdu", "pump", separator="\x1f").alias("entity")
        told = (
            rows.filter(pl.any_horizontal(pl.col("speed_rpm", "power_watts").is_not_null()))
            .with_columns(named)
            .sort("entity", "time")
        )
        walked, memory = scan(
            told, before.with_columns(named).select("entity", "time", *PUMP_MEMORY),
            inputs=("speed_rpm", "power_watts"), memory=PUMP_MEMORY, outputs=("fell",), step=self._pump_step,
        )  # fmt: skip
        carried = before.select("cdu", "pump", "time", "speed_rpm", "fell_since", named, carried=pl.lit(True))
        since = pl.concat([carried, walked.with_columns(carried=pl.lit(False))], how="diagonal_relaxed").sort(
            "entity", "carried", "time", descending=[False, True, False]
        )
        fell = pl.when("carried").then(pl.col("fell_since").is_not_null()).otherwise(pl.col("fell") == 1)
        since = run_start(since.with_columns(bad=fell), "fell_since")
        last = since.group_by("entity").agg(pl.col("cdu", "pump", "fell_since").last())
        return since.select("cdu", "pump", "time", "speed_rpm", "fell_since"), memory.join(
            last, on="entity", how="left"
        )

    def _pump_step(self, memory: Arrays, sample: Arrays) -> tuple[Arrays, Arrays]:
        speed, power = sample["speed_rpm"], sample["power_watts"]
        fell = (speed < (1 - self.pump_drop) * memory["speed_normal"]) | (
            power < (1 - self.power_drop) * memory["power_normal"]
        )
        weight = np.where(fell, 0.0, weight_of(sample["elapsed_seconds"], self.normal_seconds))
        return {
            "speed_normal": np.where(
                np.isnan(speed), memory["speed_normal"], toward(memory["speed_normal"], speed, weight)
            ),
            "power_normal": np.where(
                np.isnan(power), memory["power_normal"], toward(memory["power_normal"], power, weight)
            ),
            "speed_rpm": speed,
            "power_watts": power,
        }, {"fell": fell.astype(np.float64)}

    def _loops(self, rows: pl.DataFrame, before: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Loop samples with their normals; and the loops' memory."""
        told = rows.filter(pl.col("flow_liters_per_minute").is_not_null()).select(
            "time", "flow_liters_per_minute", "supply_celsius", entity="cdu",
            rise=pl.col("return_celsius") - pl.col("supply_celsius"),
        )  # fmt: skip
        return scan(
            told.sort("entity", "time"), before.select("time", *LOOP_MEMORY, entity="cdu"),
            inputs=("flow_liters_per_minute", "rise"), memory=LOOP_MEMORY, outputs=LOOP_OUTPUTS, step=self._loop_step,
        )  # fmt: skip

    def _loop_step(self, memory: Arrays, sample: Arrays) -> tuple[Arrays, Arrays]:
        flow, rise, normal = sample["flow_liters_per_minute"], sample["rise"], memory["flow_normal"]
        low = flow < (1 - self.flow_drop / 2) * normal
        weight = np.where(low, 0.0, weight_of(sample["elapsed_seconds"], self.normal_seconds))
        rise_normal = memory["rise_normal"]
        speed_of_rise = (rise - memory["rise_before"]) / sample["elapsed_seconds"]
        return {
            "flow_normal": toward(normal, flow, weight),
            "rise_normal": np.where(np.isnan(rise), rise_normal, toward(rise_normal, rise, weight)),
            "rise_before": np.where(np.isnan(rise), memory["rise_before"], rise),
        }, {
            "normal_flow_liters_per_minute": np.where(np.isnan(normal), flow, normal),
            "rise_over_normal_kelvin": rise - rise_normal,
            "rise_kelvin_per_second": speed_of_rise,
        }

    def _unplanned(self, judged: pl.DataFrame, loops: pl.DataFrame) -> pl.DataFrame:
        """Without the verdict of bad samples that maintenance of the loop explains: they say nothing."""
        if loops.is_empty():
            return judged
        planned = during(judged, loops, by="entity", after=timedelta(seconds=self.clear_seconds))
        boils = (pl.col("share") < self.planned_flow) & (pl.col("rise_over_normal_kelvin") > self.rise_kelvin)
        meant = planned & judged.select(meant=pl.col("bad") & ~boils.fill_null(value=False))["meant"]
        return judged.with_columns(bad=pl.when(~meant.fill_null(value=False)).then("bad"))

    def _judge(
        self, loops: pl.DataFrame, pumps: pl.DataFrame, before: pl.DataFrame, silent_after: timedelta
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Loop samples with a verdict (bad) and evidence; and since when flow was low and the loop suspect."""
        carried = before.select("time", "low_since", "suspect_since", entity="cdu", carried=pl.lit(True))
        rows = pl.concat([carried, loops.with_columns(carried=pl.lit(False))], how="diagonal_relaxed").sort(
            "entity", "carried", "time", descending=[False, True, False]
        )
        rows = rows.with_columns(share=pl.col("flow_liters_per_minute") / pl.col("normal_flow_liters_per_minute"))
        low = (
            pl.when("carried")
            .then(pl.col("low_since").is_not_null())
            .otherwise(pl.col("share") < 1 - self.flow_drop / 2)
        )
        rows = run_start(rows.with_columns(bad=low), "low_since")
        rows = rows.join(
            self._pumps_at(rows, pumps, silent_after), on=["entity", "time"], how="left", maintain_order="left"
        )
        together = pl.duration(seconds=self.together_seconds)
        pump_fell = pl.col("pump_fell_since") >= pl.col("low_since") - together
        hotter = (pl.col("rise_over_normal_kelvin") > self.rise_kelvin) & (pl.col("pumps_known").fill_null(0) == 0)
        suspect = pl.col("low_since").is_not_null() & (pump_fell.fill_null(value=False) | hotter.fill_null(value=False))
        suspect = pl.when("carried").then(pl.col("suspect_since").is_not_null()).otherwise(suspect)
        rows = run_start(rows.with_columns(bad=suspect), "suspect_since")
        was_suspect = pl.col("suspect_since").shift(1).over("entity").is_not_null()
        bad = pl.when(pl.col("suspect_since").is_null()).then(pl.lit(False)).when(
            was_suspect & (pl.col("share") < 1 - self.flow_drop)
        ).then(pl.lit(True))  # fmt: skip
        rows = rows.with_columns(bad=bad)
        after = rows.group_by("entity").agg(pl.col("low_since", "suspect_since").last())
        alone = (pl.col("pumps_fallen").list.len() < pl.col("pumps_known")).fill_null(value=False)
        return rows.filter(~pl.col("carried")).drop("carried").with_columns(alone=alone), after

    def _pumps_at(self, rows: pl.DataFrame, pumps: pl.DataFrame, silent_after: timedelta) -> pl.DataFrame:
        """What each loop's pumps last said at each of the loop's samples. A pump that is silent while another is not
        fell when its next sample was due.
        """
        wanted = rows.filter(~pl.col("carried")).select("entity", "time")
        each = wanted.join(pumps.select("cdu", "pump").unique(), left_on="entity", right_on="cdu").sort("time")
        latest = each.join_asof(
            pumps.sort("time").select("speed_rpm", "fell_since", "pump", entity="cdu", said_at="time"),
            left_on="time", right_on="said_at", by=["entity", "pump"], coalesce=False, check_sortedness=False,
        ).filter(pl.col("said_at").is_not_null())  # fmt: skip
        since = pl.col("time") - pl.col("said_at")
        silent = since > silent_after
        alone = silent & (~silent).any().over("entity", "time")
        fell = pl.coalesce("fell_since", pl.when(alone).then(pl.col("said_at") + silent_after))
        latest = latest.with_columns(silent=alone, fell_since=fell, speed_rpm=pl.when(~alone).then("speed_rpm"))
        heard = alone | (since <= timedelta(seconds=self.pump_silent_seconds))
        return latest.filter(heard).sort("pump").group_by("entity", "time").agg(
            pump_fell_since=pl.col("fell_since").max(),
            pumps_known=pl.len(),
            pump_speeds_rpm=pl.col("speed_rpm"),
            pumps_fallen=pl.col("pump").filter(pl.col("fell_since").is_not_null()),
            pumps_silent=pl.col("pump").filter("silent"),
        )  # fmt: skip

    def _findings(self, changes: pl.DataFrame, judged: pl.DataFrame, said: pl.DataFrame) -> pl.DataFrame:
        if changes.is_empty() and said.is_empty():
            return NO_FINDINGS
        place = ["entity", "time"]
        again = judged.join(said, on=place, how="semi").join(changes, on=place, how="anti").with_columns(active=True)
        rows = pl.concat([changes, again], how="diagonal_relaxed").join(said, on=place, how="left")
        unseen = pl.col("pumps_known").fill_null(0) == 0
        first_bad_at = pl.coalesce("stated_first_bad_at", "first_bad_at")
        rows = rows.with_columns(
            severity=pl.lit("page"),
            code=pl.when(unseen).then(pl.lit("flow_and_temperature")).otherwise(pl.lit("flow_and_pump")),
            score=1 - pl.col("share"),
            threshold=pl.lit(self.flow_drop),
            action=pl.when("alone").then(pl.lit("switch_pump")).otherwise(pl.lit("raise_flow")),
            first_bad_at=pl.when("active").then(first_bad_at).otherwise("first_bad_at"),
            seconds_to_throttle=seconds(pl.col("throttles_at") - pl.col("stated_at")),
            seconds_to_shutdown=seconds(pl.col("shuts_down_at") - pl.col("stated_at")),
        ).with_columns(
            evidence(
                "flow_liters_per_minute", "normal_flow_liters_per_minute", "pump_speeds_rpm", "pumps_fallen",
                "pumps_silent",
                "rise_kelvin_per_second", "seconds_to_throttle", "seconds_to_shutdown", "throttles_at",
                "shuts_down_at",
            )
        )  # fmt: skip
        return ordered(findings_frame(rows, self.name, "coolant_pump_failure", "cdu"))
