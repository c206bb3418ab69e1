"""Driver errors (XID) that take a GPU out of service."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cache

import dataframely as dy
import polars as pl

from detectors.contract import Context, Detection, evidence, findings_frame, ordered
from detectors.gpu.xid_catalog import FALLEN_OFF_BUS, FATAL_CODES, RECOVERY_ACTION_CHANGED, XID_BY_CODE
from detectors.gpu.xid_returns import KEY, RETURN_COLUMNS, came_back, is_first
from detectors.stats.sorted_state import span
from schemas.columns import UTC_MICROSECONDS
from schemas.gpu import Gpu, GpuEvent

LEVEL = "level"
LEVEL_COLUMNS = pl.Schema(
    {"entity": pl.String(), "xid": pl.Int64(), "time": UTC_MICROSECONDS, "first_bad_at": UTC_MICROSECONDS}
)


@dataclass(frozen=True, kw_only=True)
class XidFault:
    """The driver logs that a GPU can no longer be used.

    What it looks like: an event with a code on which the six public classifiers of gpu/xid_catalog.csv agree that it
    is a fault (48, 62, 64, 74, 79, 119, 120); its cause and action are those of the catalogue. The codes they call
    benign are the application's (13, 31 and 43; gpu.xid_repeats watches 13 and 31; 45 is what others leave behind and
    never a root). Every other code, in the catalogue or not, is observed and never judged: unknown is not broken.
    A line "fallen off the bus" is 79. XID 154 carries what the driver itself wants; where it asks for a reset, a reboot
    or a drain it is followed: it changes the action of the fatal codes active on the GPU, or is a fatal error of its
    own.
    Formula: a level per (GPU, code) begins with the event and ends `hold_seconds` after the code's last event. A code
    that comes again after its GPU was back at work (its rows paused for more than `pause_seconds`, or its energy since
    driver load fell) has outlived a reset or reboot; after `returns` of them within `memory_seconds` another one is of
    no use, and the action becomes field_diagnostics.
    Defaults: 3600 s, as an event has no end, and a reset or reboot with its checks takes up to half an hour
    (NVSentinel issue 126), so an hour without the code is the first good sign; Azure's window is two. 2 returns: gpud
    reboots twice for a code, then inspects. 60 s: a reset takes seconds, a lost scrape or two is none. 14 days: as long
    as gpud keeps its events.
    Entity: node/slot; node/PCI address where the source does not know the slot.
    Cannot see: which GPU began it, when XID 45 storms over all ranks of a job; SXIDs of NVSwitches; returns of a GPU
    whose own rows are not sent.
    """

    hold_seconds: float = 3600.0
    returns: int = 2
    pause_seconds: float = 60.0
    memory_seconds: float = 14 * 86_400.0
    fatal: tuple[int, ...] = FATAL_CODES

    @property
    def name(self) -> str:
        return "gpu.xid"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return (GpuEvent, Gpu)

    @property
    def keeps(self) -> pl.Schema:
        """Per active (GPU, code) its last event and its first one; the history of returns (RETURN_COLUMNS)."""
        return pl.Schema({**RETURN_COLUMNS, "first_bad_at": UTC_MICROSECONDS})

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        hold = timedelta(seconds=self.hold_seconds)
        levels_begin, _ = span(state, "row", LEVEL)  # the state is in order of what its rows are
        before = state.slice(levels_begin).select(LEVEL_COLUMNS.names())
        history = state.head(levels_begin).select(RETURN_COLUMNS.names())
        events = _events(tables[GpuEvent])
        own = pl.col("xid") == RECOVERY_ACTION_CHANGED
        fatal_events = events.join(_rules(self.fatal), on="xid", maintain_order="left")
        returns, history_after = came_back(
            fatal_events, tables[Gpu], history, now=context.now,
            pause=timedelta(seconds=self.pause_seconds), window=timedelta(seconds=self.memory_seconds),
        )  # fmt: skip
        spent = pl.col("came_back") >= self.returns
        fatal_events = fatal_events.join(returns, on="row", how="left", maintain_order="left").with_columns(
            action=pl.when(spent).then(pl.lit("field_diagnostics")).otherwise("action"),
            spent=pl.col("stepped") & (pl.col("came_back") == self.returns),
        )
        runs = fatal = _runs(fatal_events, before.filter(~own), hold)
        changed = fatal.clear()
        asked, asked_before = events.filter(own), before.filter(own)
        if not (asked.is_empty() and asked_before.is_empty()):  # hardly ever, and half of what there is to compute
            wanted = asked.with_columns(action=_driver_action()).filter(pl.col("action").is_not_null())
            changed = _active_at(wanted, fatal, hold)
            alone = wanted.join(changed, on="row", how="anti", maintain_order="left").with_columns(
                cause=pl.lit("gpu_fatal_error")
            )
            runs = pl.concat([fatal, _runs(alone, asked_before, hold)], how="diagonal")
        begins = runs.filter(~pl.col("carried") & (pl.col("fresh") | own | pl.col("spent")))
        last = pl.coalesce("next", pl.lit(context.now)) - pl.col("time") > hold
        ends = runs.filter(last).with_columns(time=pl.col("time") + hold)
        active = runs.filter(pl.col("next").is_null() & ~last).select(LEVEL_COLUMNS.names())
        kept = [active.with_columns(row=pl.lit(LEVEL)), history_after]  # which have all columns between them
        after = pl.concat(kept, how="diagonal").select(self.keeps.names()).sort(pl.all())
        return Detection(ordered(*self._said(pl.concat([begins, changed], how="diagonal"), ends)), after)

    def _said(self, actives: pl.DataFrame, ends: pl.DataFrame) -> list[pl.DataFrame]:
        """Statements, one frame per cause."""
        if actives.is_empty() and ends.is_empty():
            return []
        causes = {code: _cause(code) for code in (*self.fatal, RECOVERY_ACTION_CHANGED)}
        said = pl.concat(
            [
                actives.with_columns(
                    evidence("xid", "pci", "message", "came_back"), active=pl.lit(True), score=pl.lit(1.0)
                ),
                ends.with_columns(active=pl.lit(False), score=pl.lit(0.0), action=pl.lit(None, pl.String)),
            ],
            how="diagonal",
        ).with_columns(
            cause=pl.col("xid").replace_strict(causes, return_dtype=pl.String),
            code=pl.format("xid {}", "xid"), severity=pl.lit("page"), threshold=pl.lit(1.0),
        )  # fmt: skip
        by_cause = said.partition_by("cause", include_key=False, as_dict=True)
        return [findings_frame(rows, self.name, cause, "gpu") for (cause,), rows in by_cause.items()]


@cache
def _rules(fatal: tuple[int, ...]) -> pl.DataFrame:
    rules = [(code, _cause(code), XID_BY_CODE[code].action if code in XID_BY_CODE else "open_ticket") for code in fatal]
    return pl.DataFrame(rules, schema={"xid": pl.Int64(), "cause": pl.String(), "action": pl.String()}, orient="row")


def _cause(code: int) -> str:
    return XID_BY_CODE[code].cause if code in XID_BY_CODE else "gpu_fatal_error"


def _events(rows: pl.DataFrame) -> pl.DataFrame:
    """XIDs with the GPU's id; a line "fallen off the bus" is XID 79."""
    place = pl.coalesce(pl.col("gpu").cast(pl.String), "pci", pl.lit("unknown"))
    return rows.filter(pl.col("kind") != "sxid").select(
        entity=pl.format("{}/{}", "node", place),
        xid=pl.when(pl.col("kind") == "fallen_off_bus").then(pl.lit(FALLEN_OFF_BUS, pl.Int64)).otherwise("code"),
        time="time", pci="pci", message="message", recovery_action="recovery_action",
    ).with_row_index("row")  # fmt: skip


def _driver_action() -> pl.Expr:
    """What XID 154 asks for, as an action; null for "None" and for what nobody knows.

    The words are the driver's: "GPU Reset Required", "Node Reboot Required", "Drain P2P", "Drain and Reset". Draining
    comes first where both are asked for. Without a decoded action the line's "from ... to 0x1 (GPU Reset Required)".
    """
    logged = pl.col("message").str.extract(r"(?i)\bto\s+0x[0-9a-f]+\s*\(([^)]*)\)")
    words = pl.coalesce("recovery_action", logged).str.to_lowercase()
    return (
        pl.when(words.str.contains("reboot")).then(pl.lit("reboot_node"))
        .when(words.str.contains("drain")).then(pl.lit("drain_node"))
        .when(words.str.contains("reset")).then(pl.lit("reset_gpu"))
    )  # fmt: skip


def _runs(events: pl.DataFrame, state: pl.DataFrame, hold: timedelta) -> pl.DataFrame:
    """Events behind the carried last ones of each (GPU, code): `fresh` begins a level, `next` is the next event."""
    timeline = pl.concat(
        [state.with_columns(carried=pl.lit(True)), events.with_columns(carried=pl.lit(False))], how="diagonal"
    ).sort(*KEY, "carried", "time", descending=[False, False, True, False], maintain_order=True)
    first, paused = is_first(), pl.col("time") - pl.col("time").shift(1) > hold
    timeline = timeline.with_columns(
        fresh=(first | paused) & ~pl.col("carried"), next=pl.when(~first.shift(-1)).then(pl.col("time").shift(-1))
    )
    began = pl.when("carried").then("first_bad_at").when("fresh").then("time")  # the first of each one is either
    return timeline.with_columns(first_bad_at=began.forward_fill())


def _active_at(wanted: pl.DataFrame, fatal: pl.DataFrame, hold: timedelta) -> pl.DataFrame:
    """For each XID 154 the fatal codes active on its GPU, to be stated again with the action that the driver wants."""
    asked = wanted.select("row", "entity", "action", "message", "pci", asked_at="time")
    codes = fatal.select("entity", "xid").unique()
    found = asked.join(codes, on="entity").sort("asked_at").join_asof(
        fatal.select("entity", "xid", "time", "first_bad_at").sort("time"), left_on="asked_at", right_on="time",
        by=["entity", "xid"], strategy="backward", coalesce=False, check_sortedness=False,
    )  # fmt: skip
    return found.filter(pl.col("asked_at") - pl.col("time") < hold).with_columns(time=pl.col("asked_at"))
