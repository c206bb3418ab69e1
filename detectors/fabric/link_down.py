"""A link that is down and stays down."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

import dataframely as dy
import polars as pl

from detectors.contract import Context, Detection, evidence, findings_frame, ordered
from detectors.fabric.port_samples import ordered_ports
from detectors.levels import LEVEL_COLUMNS, levels
from detectors.planned import PLAN_COLUMNS, forgiven_links, spread, still_needed, with_windows
from detectors.stats.adjacent import begins, ends, within
from detectors.stats.sorted_state import beside, located, rows_of, with_rows
from schemas.columns import UTC_MICROSECONDS
from schemas.fabric import FabricPort
from schemas.job import Maintenance

PLAN = {f"plan_{column}": column for column in PLAN_COLUMNS}
END_COLUMNS = pl.Schema({"state": pl.String(), "said_at": UTC_MICROSECONDS, "down_since": UTC_MICROSECONDS})


@dataclass(frozen=True, kw_only=True)
class LinkDown:
    """A link carries nothing for down_seconds.

    What fails: a transceiver, the cable, a port, or the device behind one of them. What it looks like: the ends say
    "down". Verdict at each sample of either end: bad when an end is down and the other one is not known to be active
    since: it is down too, or has said nothing since the first went down (a dead host or switch says nothing at all),
    or has been silent for silent_intervals. Good when no end is down. An end that is down while the other still says
    active is a disagreement: one_end_seconds long it says nothing, as words may be old, and then it is a failure of one
    direction (one_end_only): light is lost one way, or the port that says active cannot be believed.

    down_seconds 25: GPUd counts an outage from there; shorter ones are retraining and the business of
    fabric.link_flap. silent_intervals 4: the house rule for silence.
    one_end_seconds 240: GPUd's rule for a port that has dropped (field.md 5). A port that no cable is known for
    speaks only after it has been active, because an empty port is down for ever. A link that is down while its cable,
    a device at either end or the host behind it is in maintenance was meant to be: that time is not counted.

    Cannot see: a link that is up and useless (fabric.bit_errors), or one whose both ends are silent.
    """

    down_seconds: float = 25.0
    silent_intervals: float = 4.0
    one_end_seconds: float = 240.0

    name: ClassVar[str] = "fabric.link_down"
    reads: ClassVar[tuple[type[dy.Schema], ...]] = (FabricPort, Maintenance)
    keeps: ClassVar[pl.Schema] = pl.Schema(
        {
            **LEVEL_COLUMNS,
            "known": pl.Boolean(),
            **{f"{end}_{column}": dtype for end in "ab" for column, dtype in END_COLUMNS.items()},
            **{f"plan_{column}": dtype for column, dtype in PLAN_COLUMNS.items()},
        }
    )

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        """Findings on links: link_down."""
        silent_seconds = self.silent_intervals * context.intervals_seconds.get("fabric_port", 30.0)
        grace = timedelta(seconds=self.down_seconds)
        planned, known = state.filter(pl.col("plan_kind").is_not_null()), state.filter(pl.col("plan_kind").is_null())
        plans = with_windows(planned.select(PLAN.keys()).rename(PLAN), tables[Maintenance])
        lasting = still_needed(plans, context.now, grace).rename({name: column for column, name in PLAN.items()})
        said = context.once(ordered_ports, tables[FabricPort]).filter(pl.col("state").is_not_null())
        if said.is_empty() and lasting.equals(planned.select(PLAN.keys())):
            return Detection(ordered(), state)
        nothing = pl.DataFrame(schema=self.keeps)
        plans_after = pl.concat([nothing, lasting], how="diagonal").select(self.keeps.names())
        newest = _at_ends(said.filter(ends()), context)
        few = rows_of(known, newest["whole"].unique().sort())
        restless = newest["whole"].is_in(_restless(said, newest, few).implode())
        quiet = with_rows(known, _heard(few, newest.filter(~restless)))
        if not restless.any():
            return Detection(ordered(), pl.concat([plans_after, quiet]))
        some = said.filter(pl.col("entity").is_in(newest.filter(restless)["entity"].implode()))
        rows = _by_link(_at_ends(some, context))
        before = rows_of(known, rows["entity"].unique().sort())
        carried = before.drop(*PLAN, *(name for name in LEVEL_COLUMNS if name not in ("entity", "time")))
        rows = pl.concat([carried.with_columns(carried=True), rows.with_columns(carried=False)], how="diagonal").sort(
            "entity", "carried", "time", descending=[False, True, False]
        )
        ever = pl.when("known").then(pl.lit(value=True))
        rows = _follow(_follow(rows, "a"), "b").with_columns(known=within(ever).fill_null(value=False))
        rows = rows.with_columns(disputed=_disputed(timedelta(seconds=silent_seconds)))
        rows = rows.with_columns(bad=_verdict(timedelta(seconds=self.one_end_seconds)))
        suspects = rows.filter("bad")
        meant = forgiven_links(suspects, spread(plans, context.topology), context.topology, at="time", limit=grace)
        spared = suspects.filter(meant).select("entity", "time", "carried", bad_before="bad")
        if not spared.is_empty():
            rows = rows.join(spared, on=["entity", "time", "carried"], how="left", maintain_order="left")
            rows = rows.with_columns(bad=pl.when(pl.col("bad_before").is_null()).then("bad")).drop("bad_before")
        changes, level = levels(rows.filter(~pl.col("carried")), _told(before), for_seconds=self.down_seconds)
        last = rows.filter(ends()).select(
            "entity", "time", "known", *(f"{end}_{column}" for end in "ab" for column in END_COLUMNS)
        )
        links = beside(last, level.rename({"time": "level_time"})).drop("level_time")
        told = pl.concat([nothing, links], how="diagonal").select(self.keeps.names())
        return Detection(self._findings(changes), pl.concat([plans_after, with_rows(quiet, told)]))

    def _findings(self, changes: pl.DataFrame) -> pl.DataFrame:
        since = pl.min_horizontal("a_down_since", "b_down_since")
        silent = pl.col("a_state").is_null() | pl.col("b_state").is_null()
        rows = changes.with_columns(
            code=pl.when("disputed").then(pl.lit("one_end_only")).when(silent).then(pl.lit("one_end_known"))
            .otherwise(pl.lit("both_ends_known")),
            severity=pl.lit("page"),
            score=(pl.col("time") - since).dt.total_microseconds() * 1e-6,
            threshold=pl.lit(self.down_seconds),
            first_bad_at=pl.when("active").then(pl.min_horizontal(since, "first_bad_at")).otherwise("first_bad_at"),
            action=pl.lit("reset_port"),
        ).with_columns(score=pl.col("score").fill_null(0.0))  # fmt: skip
        rows = rows.with_columns(evidence("a_state", "a_said_at", "b_state", "b_said_at"))
        return ordered(findings_frame(rows, self.name, "link_down", "link"))


def _at_ends(said: pl.DataFrame, context: Context) -> pl.DataFrame:
    """Words of ports, each with its link (whole), which end of it that is, and whether a cable is known (an unknown
    port is an end a).
    """
    ports = context.topology.ports_by_name
    at, there = located(ports["name"], said["entity"])
    found = ports.select("cable", "peer", "is_a").gather(pl.Series(at).set(pl.Series(~there), None))
    cabled = pl.col("peer").is_not_null()
    return said.select("time", "entity", "state").hstack(found).select(
        "time", "entity", "state", whole=pl.coalesce("cable", "entity"), cabled=cabled,
        end=pl.when(pl.col("is_a").fill_null(value=True) | ~cabled).then(pl.lit("a")).otherwise(pl.lit("b")),
    )  # fmt: skip


def _restless(said: pl.DataFrame, newest: pl.DataFrame, known: pl.DataFrame) -> pl.Series:
    """Links whose words have to be followed one by one: a port is down or was, or all that is not usual. At all others
    nothing can happen, and their newest words are all that matters. newest: of each port.
    """
    down = (pl.col("a_state").eq("down") | pl.col("b_state").eq("down")).fill_null(value=False)
    calm = known.filter(
        pl.col("known") & ~down & ~pl.col("active") & pl.col("bad").eq(other=False).fill_null(value=False)
    )
    again = (pl.col("entity") == pl.col("entity").shift(1)) & (pl.col("time") == pl.col("time").shift(1))
    odd = said.filter((pl.col("state") == "down") | again)["entity"]
    twice = newest.select("whole", "end").is_duplicated()
    return newest.filter(
        ~pl.col("whole").is_in(calm["entity"].implode()) | pl.col("entity").is_in(odd.implode()) | twice
    )["whole"]


def _heard(known: pl.DataFrame, newest: pl.DataFrame) -> pl.DataFrame:
    """The links with what their ends last said, none of them down."""
    for end in "ab":
        words = newest.filter(end=end).select("state", entity="whole", said_at="time")
        names = {f"{end}_{name}": pl.coalesce(name, f"{end}_{name}") for name in ("state", "said_at")}
        told = known.join(words, on="entity", how="left", maintain_order="left")
        known = told.with_columns(**names, time=pl.max_horizontal("time", "said_at")).select(known.columns)
    return known


def _by_link(rows: pl.DataFrame) -> pl.DataFrame:
    """One row per link and sample time, with what end a and end b said at that time."""
    # Two words of an end at one instant are no two samples: the one that sorts last stands for both.
    return rows.group_by("whole", "time").agg(
        *(pl.when(pl.col("end") == end).then("state").max().alias(f"{end}_state") for end in "ab"),
        known=(pl.col("cabled") | (pl.col("state") == "active")).any(),
    ).rename({"whole": "entity"})  # fmt: skip


def _follow(rows: pl.DataFrame, end: str) -> pl.DataFrame:
    """The end's last words at every row, when it said them and since when it is down; carried rows bring theirs."""
    state, said_at, since = (f"{end}_{name}" for name in END_COLUMNS)
    spoke = ~pl.col("carried") & pl.col(state).is_not_null()
    rows = rows.with_columns(pl.when(spoke).then("time").otherwise(said_at).alias(said_at))
    rows = rows.with_columns(within(pl.col(state)), within(pl.col(said_at)))
    down = (pl.col(state) == "down").fill_null(value=False)
    fell = down & (begins() | ~down.shift(1, fill_value=False))
    began = within(pl.when("carried").then(since).when(fell).then("time"))
    return rows.with_columns(pl.when(down).then(began).alias(since))


def _disputed(silent: timedelta) -> pl.Expr:
    """One end is down and the other has said since that it is not."""

    def contradicts(near: str, far: str) -> pl.Expr:
        said = pl.col(f"{far}_said_at")
        heard_since = (said >= pl.col(f"{near}_down_since")) & (pl.col("time") - said <= silent)
        up = pl.col(f"{far}_state") != "down"
        return (pl.col(f"{near}_state").eq("down") & up & heard_since).fill_null(value=False)

    return contradicts("a", "b") | contradicts("b", "a")


def _verdict(patience: timedelta) -> pl.Expr:
    a_down, b_down = (pl.col(f"{end}_state").eq("down").fill_null(value=False) for end in "ab")
    since = pl.min_horizontal("a_down_since", "b_down_since")
    lost = (a_down | b_down) & (~pl.col("disputed") | (pl.col("time") - since >= patience))
    return pl.when(lost & pl.col("known")).then(pl.lit(True)).when(~a_down & ~b_down).then(pl.lit(False))


def _told(state: pl.DataFrame) -> pl.DataFrame:
    return state.filter(pl.col("bad").is_not_null()).select(LEVEL_COLUMNS.names())
