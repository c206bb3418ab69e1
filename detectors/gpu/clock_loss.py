"""GPUs that run below the clock of their peers and give no reason."""

from collections.abc import Mapping
from dataclasses import dataclass

import dataframely as dy
import polars as pl

from detectors.contract import Context, Detection, evidence, findings_frame, ordered
from detectors.gpu.slots import GPU_ID
from detectors.levels import LEVEL_COLUMNS, levels
from schemas.gpu import CLOCKS_EVENT_IDLE, CLOCKS_EVENT_SOFTWARE_POWER_CAP, Gpu

NORMAL_REASONS = CLOCKS_EVENT_IDLE | CLOCKS_EVENT_SOFTWARE_POWER_CAP
SEEN = ("sm_clock_megahertz", "peers_median_megahertz", "clocks_event_reasons", "power_watts")


@dataclass(frozen=True, kw_only=True)
class ClockLoss:
    """A GPU is stuck at a lower clock: a power stage in safe mode, firmware, a limit that somebody forgot.

    What it looks like: under the same load as its neighbours and without a reason in its mask, its SM clock stays
    below theirs; every rank of the job waits for it (NVSentinel issue 890: silent throttle).
    Formula: clock / median of the busy GPUs of its host at the same instant < `ratio`, for `sustained_seconds`; ends
    after `clear_seconds` at or above it. Busy is a utilization of `busy_percent` or more; at least `peers_minimum`
    busy GPUs make a median. Reasons other than idle (0x1) and the power cap (0x4), which are normal, excuse a sample:
    heat, power brake and set clocks are told by their own detectors.
    Defaults: 0.9, because boards of one host that share a power cap differ by 4 % at most and gcm calls 75 MHz (4 %)
    critical for a locked clock; 20 s, as clocks follow a load step within seconds; 4 peers of the usual 8.
    Cannot see: a whole host that is slow (its ranks are job.straggler's); GPUs whose rows carry times of their own.
    """

    ratio: float = 0.9
    busy_percent: float = 90.0
    peers_minimum: int = 4
    sustained_seconds: float = 20.0
    clear_seconds: float = 30.0

    @property
    def name(self) -> str:
        return "gpu.clock_loss"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return (Gpu,)

    @property
    def keeps(self) -> pl.Schema:
        """`LEVEL_COLUMNS`: one row per GPU that was ever below its peers."""
        return LEVEL_COLUMNS

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        del context
        changes, after = levels(
            self._samples(tables[Gpu], state), state, for_seconds=self.sustained_seconds,
            clear_seconds=self.clear_seconds,
        )  # fmt: skip
        said = changes.with_columns(
            evidence(*SEEN), code=pl.lit("clock_below_peers"), severity=pl.lit("ticket"),
            threshold=pl.lit(1 / self.ratio),
            score=pl.col("peers_median_megahertz") / pl.col("sm_clock_megahertz"),
            action=pl.when("active").then(pl.lit("field_diagnostics")),
        )  # fmt: skip
        return Detection(ordered(findings_frame(said, self.name, "gpu_straggler", "gpu")), after)

    def _samples(self, rows: pl.DataFrame, state: pl.DataFrame) -> pl.DataFrame:
        """entity, time, bad and evidence of the GPUs that are slow now or have been before."""
        clock = pl.col("sm_clock_megahertz")
        busy = rows.filter((pl.col("utilization_percent") >= self.busy_percent) & clock.is_not_null())
        spread = busy.group_by("node").agg(least=clock.min(), most=clock.max())
        uneven = spread.filter(pl.col("least") < self.ratio * pl.col("most"))["node"]
        known = state.select(node=pl.col("entity").str.split("/").list.first())["node"]
        nodes = pl.concat([uneven, known]).unique()
        here = ["node", "time"]
        excuses = pl.col("clocks_event_reasons").and_(~NORMAL_REASONS).fill_null(0) != 0
        judged = (
            busy.filter(pl.col("node").is_in(nodes.implode()))
            .with_columns(peers_median_megahertz=clock.median().over(here), peers=pl.len().over(here))
            .filter((pl.col("peers") >= self.peers_minimum) & ~excuses)
            .with_columns(GPU_ID, bad=clock < self.ratio * pl.col("peers_median_megahertz"))
        )
        concerned = pl.concat([state["entity"], judged.filter("bad")["entity"]]).unique()
        return judged.filter(pl.col("entity").is_in(concerned.implode())).select("entity", "time", "bad", *SEEN)
