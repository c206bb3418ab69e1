"""A whole switch that is gone."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

import dataframely as dy
import polars as pl

from detectors.contract import Context, Detection, evidence, findings_frame, ordered
from detectors.fabric.lanes import with_link, with_port
from detectors.fabric.port_samples import ordered_ports
from detectors.levels import LEVEL_COLUMNS, levels
from detectors.planned import PLAN_COLUMNS, forgiven, spread, still_needed, with_windows
from detectors.silence import intervals
from detectors.stats import adjacent
from detectors.stats.sorted_state import part, places, with_rows
from schemas.columns import UTC_MICROSECONDS
from schemas.fabric import FabricPort
from schemas.job import Maintenance

# entity: the port, as device:port.
WORD = pl.Schema(
    {"entity": pl.String(), "said_at": UTC_MICROSECONDS, "down": pl.Boolean(), "down_since": UTC_MICROSECONDS}
)
PLAN = {f"plan_{column}": column for column in PLAN_COLUMNS}
LEVEL = {f"level_{name}": dtype for name, dtype in LEVEL_COLUMNS.items()}


@dataclass(frozen=True, kw_only=True)
class SwitchLost:
    """All links of a switch are down at once: the switch is gone, and not thirty cables.

    What fails: its power supplies, its ASIC, its operating system, or somebody pulled it. What it looks like: every
    neighbour says its port towards the switch is down; the switch itself has said nothing since (silent), or says that
    all its ports are down (ports_down).
    Formula: a port's last words count for one interval and a quarter; "up" counts until the other end of the link says
    "down". Over the ports at both ends of the switch's
    links, bad when down / (down + other) >= down_share, the words of at least heard_share of the links are there, and
    they are of links to peers_minimum devices; good when half of the words are not "down". So a switch whose words
    have only stopped is not lost, and one whose links die one by one is judged when the words before have grown old.

    down_share 0.97: one stuck exporter among 32 neighbours must not hide it. heard_share 0.5: an unmanaged switch tells
    nothing itself, and one of its neighbours in two may be off. peers_minimum 2: all links to a single device down are
    as well that device. A switch in maintenance was meant to be down.

    Cannot see: a switch that drops packets with its links up; one whose neighbours are all silent.
    """

    down_share: float = 0.97
    heard_share: float = 0.5
    peers_minimum: int = 2

    name: ClassVar[str] = "fabric.switch_lost"
    reads: ClassVar[tuple[type[dy.Schema], ...]] = (FabricPort, Maintenance)
    # row = word (a port's last state), level (of a switch) or plan.
    keeps: ClassVar[pl.Schema] = pl.Schema(
        {
            "row": pl.String(), **WORD, **LEVEL, **{name: PLAN_COLUMNS[column] for name, column in PLAN.items()},
        }
    )  # fmt: skip

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        """Findings on switches: switch_lost."""
        if all(tables[schema].is_empty() for schema in self.reads) and part(state, "row", "plan").is_empty():
            return Detection(ordered(), state)
        fresh = intervals(1, context.intervals_seconds.get("fabric_port", 30.0))
        known = part(state, "row", "word").select(WORD.names())
        rows = context.once(ordered_ports, tables[FabricPort]).filter(pl.col("state").is_not_null()).select(
            "entity", said_at="time", down=pl.col("state") == "down", down_since=pl.lit(None, UTC_MICROSECONDS)
        )  # fmt: skip
        plans = with_windows(part(state, "row", "plan").select(PLAN.keys()).rename(PLAN), tables[Maintenance])
        level = part(state, "row", "level").select(LEVEL.keys()).rename({name: name[6:] for name in LEVEL})
        down = pl.concat([known.filter("down")["entity"], rows.filter("down")["entity"]]).unique()
        heard = with_rows(known, rows.filter(adjacent.ends()))
        lasting = still_needed(plans, context.now, fresh)
        if down.is_empty() and level.is_empty():
            return Detection(ordered(), self._kept(level, lasting, heard))
        ends = _ends(down, level, context)
        # All other ports are up and at no suspect switch: their last words are all that matters.
        asked = pl.concat([down, ends["entity"]]).unique()
        both = _down_since(_among(known, asked), rows.filter(pl.col("entity").is_in(asked.implode())))
        judged, words = self._judged(both, ends, level, fresh)
        meant = forgiven(judged, spread(plans, context.topology), {"switch": "entity"}, at="time", limit=fresh)
        judged = judged.with_columns(bad=pl.when(~(meant & pl.col("bad"))).then("bad"))
        changes, after = levels(judged, level)
        last = both.unique("entity", keep="last", maintain_order=True).select(WORD.names())
        dated = _dated(changes, words, 2 * fresh)
        return Detection(self._findings(dated), self._kept(after, lasting, with_rows(heard, last)))

    def _kept(self, level: pl.DataFrame, plans: pl.DataFrame, words: pl.DataFrame) -> pl.DataFrame:
        """In order of `row`, so that the next batch finds each kind by bisection."""
        kept = {
            "level": level.rename({name[6:]: name for name in LEVEL}),
            "plan": plans.rename({column: name for name, column in PLAN.items()}), "word": words,
        }  # fmt: skip
        parts = [rows.with_columns(row=pl.lit(row)) for row, rows in kept.items()]
        return pl.concat([pl.DataFrame(schema=self.keeps), *parts], how="diagonal").select(self.keeps.names())

    def _judged(
        self, both: pl.DataFrame, ends: pl.DataFrame, level: pl.DataFrame, fresh: timedelta
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """One row per instant at which a port of a suspect switch's links speaks: how many say down, how many not.

        Suspect is a switch for which enough words are "down", now or before, and one with a level. The words too.
        """
        down_ports = both.filter("down").select("entity").unique()
        few = ends.join(down_ports, on="entity", how="semi").group_by("switch").len("ports_down")
        links = ends.group_by("switch").agg(links=pl.col("cable").n_unique(), peers=pl.col("peer").n_unique())
        enough = pl.col("ports_down") >= self.down_share * self.heard_share * pl.col("links")
        suspects = links.join(few, on="switch").filter(enough & (pl.col("peers") >= self.peers_minimum))["switch"]
        asked = pl.col("switch").is_in(pl.concat([suspects, level["entity"]]).unique().implode())
        words = both.join(ends.filter(asked), on="entity").sort("switch", "entity", "said_at", maintain_order=True)
        count = pl.lit(1, pl.Int64())
        words = words.with_columns(next_said=pl.col("said_at").shift(-1).over("switch", "entity"))
        words = words.with_columns(refuted=_refuted(words))
        until = pl.min_horizontal("next_said", "refuted", pl.col("said_at") + fresh)
        words = words.with_columns(until=until, n_down=pl.when("down").then(count).otherwise(0))
        begins = words.select(
            "switch", "said_at", "n_down", n=count, own=pl.col("is_own").cast(pl.Int64()), spoke=~pl.col("carried")
        )
        ends_of = begins.select(
            "switch", words["until"].alias("said_at"), -pl.col("n_down", "n", "own"), spoke=pl.lit(value=False)
        )
        steps = pl.concat([begins, ends_of]).group_by("switch", "said_at").agg(
            pl.col("n_down", "n", "own").sum(), pl.col("spoke").any()
        ).sort("switch", "said_at")  # fmt: skip
        steps = steps.with_columns(pl.col("n_down", "n", "own").cum_sum().over("switch")).filter("spoke")
        steps = steps.join(links, on="switch", how="left").rename({"said_at": "time", "switch": "entity"})
        bad = (pl.col("n_down") >= self.down_share * pl.col("n")) & (pl.col("n") >= self.heard_share * pl.col("links"))
        good = (pl.col("n_down") * 2 < pl.col("n")) & (pl.col("n") > 0)
        judged = steps.with_columns(bad=pl.when(bad).then(pl.lit(True)).when(good).then(pl.lit(False)))
        seen = pl.col("bad").cum_max().over("entity").fill_null(value=False)
        judged = judged.filter(seen | pl.col("entity").is_in(level["entity"].implode())).sort("time", "entity")
        return judged, words

    def _findings(self, changes: pl.DataFrame) -> pl.DataFrame:
        rows = changes.with_columns(
            first_bad_at=pl.when("active").then(pl.min_horizontal("onset", "first_bad_at")).otherwise("first_bad_at"),
            code=pl.when(pl.col("own") > 0).then(pl.lit("ports_down")).otherwise(pl.lit("silent")),
            severity=pl.lit("page"),
            score=pl.when(pl.col("n") > 0).then(pl.col("n_down") / pl.col("n")),
            threshold=pl.lit(self.down_share),
            ports_down="n_down",
            ports_heard="n",
            ports_heard_of_switch="own",
            action=pl.lit("open_ticket"),
        ).with_columns(evidence("ports_down", "ports_heard", "ports_heard_of_switch", "links", "peers"))
        return ordered(findings_frame(rows, self.name, "switch_lost", "switch"))


def _refuted(words: pl.DataFrame) -> pl.Series:
    """When, after each word "up", the other end of its link first said "down"; null where it never did."""
    link = ["switch", "cable"]
    downs = words.filter("down").select(*link, is_own=~pl.col("is_own"), refuted="said_at").sort("refuted")
    rows = words.select(*link, "is_own", "down", "said_at").with_row_index("number").sort("said_at")
    found = rows.join_asof(
        downs, left_on="said_at", right_on="refuted", by=[*link, "is_own"], strategy="forward", coalesce=False,
        check_sortedness=False,
    )  # fmt: skip
    return found.sort("number").select(pl.when(~pl.col("down")).then("refuted").alias("refuted")).to_series()


def _down_since(known: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """The words of before and of now, port by port in order of time, with since when each port is down."""
    both = pl.concat([known.with_columns(carried=True), rows.with_columns(carried=False)], how="diagonal").sort(
        "entity", "said_at", maintain_order=True
    )
    begins = pl.col("down") & ~pl.col("down").shift(1).over("entity").fill_null(value=False) & ~pl.col("carried")
    since = pl.when(begins).then("said_at").otherwise("down_since")
    both = both.with_columns(down_since=since).with_columns(pl.col("down_since").forward_fill().over("entity"))
    return both.with_columns(down_since=pl.when("down").then("down_since"))


def _dated(changes: pl.DataFrame, words: pl.DataFrame, window: timedelta) -> pl.DataFrame:
    """Changes with their onset: when the first of the ports that are down then went down, within the window."""
    spoken = words.filter("down").select("said_at", "next_said", "down_since", entity="switch")
    at = changes.select("entity", "time").join(spoken, on="entity")
    held = (pl.col("said_at") <= pl.col("time")) & (
        pl.col("next_said").is_null() | (pl.col("next_said") > pl.col("time"))
    )
    recent = pl.col("down_since") >= pl.col("time") - window
    onsets = at.filter(held & recent).group_by("entity", "time").agg(onset=pl.col("down_since").min())
    return changes.join(onsets, on=["entity", "time"], how="left", maintain_order="left")


def _among(known: pl.DataFrame, entities: pl.Series) -> pl.DataFrame:
    at, there = places(known, entities)
    return known.gather(at[there])


def _ends(down: pl.Series, level: pl.DataFrame, context: Context) -> pl.DataFrame:
    """For each switch with a port down at an end of its links, and each with a level, both ends of all its links:
    switch, cable, peer, is_own and entity (the port of that end).
    """
    near = with_link(with_port(down.to_frame()), context.topology)
    named = pl.concat([near["device"], near["peer"].drop_nulls(), level["entity"]]).unique()
    switches = named.filter(~named.str.contains("/", literal=True))
    own = context.topology.ports.filter(pl.col("device").is_in(switches.implode()))
    columns = ("cable", "peer", pl.col("device").alias("switch"))
    return pl.concat(
        [
            own.select(*columns, is_own=pl.lit(value=True), entity=pl.format("{}:{}", "device", "port")),
            own.select(*columns, is_own=pl.lit(value=False), entity=pl.format("{}:{}", "peer", "peer_port")),
        ]
    )
