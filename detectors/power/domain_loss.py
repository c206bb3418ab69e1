"""Power domains that lose their power: one cause for every node behind the PDU."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import dataframely as dy
import polars as pl

from detectors.contract import NO_FINDINGS, Context, Detection, evidence, findings_frame, ordered
from detectors.heard import standing_of
from detectors.levels import LEVEL_COLUMNS, levels
from detectors.planned import PLAN_COLUMNS, forgiven, new_plans, spread, still_needed
from detectors.power.domain_silence import DOMAIN_EVIDENCE, Heard, SilenceRules, nodes_fed_once, silent_domains
from detectors.power.silent_sources import Limits, limits_of, silent_meters, silent_nodes
from detectors.silence import intervals
from detectors.stats.sorted_state import part
from detectors.together import Scope, Together, silent_loops
from schemas.columns import UTC_MICROSECONDS
from schemas.coolant import CoolantLoop
from schemas.gpu import Gpu
from schemas.job import Heartbeat, JobEvent, Maintenance
from schemas.power import Power

METER, NODE, LOOP, LEVEL, PLAN = "meter", "node", "loop", "level", "plan"
SEEN = ("volts", "normal_volts", "breaker", *DOMAIN_EVIDENCE)
VERDICT_COLUMNS = pl.Schema(
    {
        "entity": pl.String(), "time": UTC_MICROSECONDS, "bad": pl.Boolean(), "onset": UTC_MICROSECONDS,
        "volts": pl.Float64(), "normal_volts": pl.Float64(), "breaker": pl.String(), "silent_nodes": pl.Int64(),
        "beating_nodes": pl.Int64(), "meter_last_sample_at": UTC_MICROSECONDS, "first_silent_node": pl.String(),
        "newest_beat_at": UTC_MICROSECONDS,
    }
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PowerDomainLoss:
    """A breaker trips or a feeder fails, and every node behind the PDU goes dark within a fraction of a second.

    What it looks like: (a) a meter that still speaks says so; (b) a meter that dies with its domain sends nothing, and
    its nodes stop beating; (c) where no meter is known, the nodes alone.
    Formula: (a) breaker open or tripped, or volts < `lost_share` of normal; normal is the highest voltage that two
    samples in a row agreed on, fading with a time constant of a day. (b) the meter misses `missed_intervals` samples
    and at least `metered_share` of the domain's beating nodes fell silent within `onset_seconds` of it. (c) at least
    two nodes, and `unmetered_share` of the domain's beating ones, fell silent within `onset_seconds` of each other.
    With 1 s intervals (b) and (c) speak 3.25 s after the last sample or beat.
    Defaults: half the voltage is below every ride-through curve (ITIC allows 70 % for 0.5 s); two faults of one
    16-node domain within 10 s by chance come once in 34 years (domain.md 4.3).
    Not a loss: a meter silent alone; silent nodes behind a healthy meter; nodes with a second feed, which count
    neither way; nodes whose host reports on; what a clean end of the job or maintenance explains. (a) is not judged
    under maintenance of the PDU. Nor is silence that the collector explains, which telemetry.stale tells
    (detectors/together.py): (b) and (c) need neighbours that go on, and the nodes' coolant unit among them where it
    sends at all.
    Ends when the meter speaks of `back_share` of normal with a closed breaker, or, where the meter is silent, when a
    silent node beats again. Onset: the bad sample, or the newest beat of the nodes that fell silent.
    Cannot see: loss of one phase that the line voltage hides; domains whose nodes all have two feeds, unless (a);
    that a collector serves just one domain, with its meter and without its coolant unit.
    """

    lost_share: float = 0.5
    back_share: float = 0.8
    missed_intervals: float = 3.0
    metered_share: float = 0.5
    unmetered_share: float = 0.8
    onset_seconds: float = 10.0
    normal_fades_seconds: float = 86_400.0
    clean_end_grace_seconds: float = 5.0

    @property
    def name(self) -> str:
        return "power.domain_loss"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return (Power, Heartbeat, JobEvent, Maintenance, Gpu, CoolantLoop)

    @property
    def keeps(self) -> pl.Schema:
        """One row per meter (last sample, voltage peak), node (last beat), loop, domain ever lost, and open plan.

        `told`: whether the silence after `time` has been judged. `peak`: see `_normal_volts`. `onset`: of the level.
        `proof`: first row that shows that the host of a silent node lives. `host`: a node sends such rows at all.
        """
        return pl.Schema(
            {
                "row": pl.String(), **LEVEL_COLUMNS, "job": pl.String(), "told": pl.Boolean(), "volts": pl.Float64(),
                "peak": pl.Float64(), "onset": UTC_MICROSECONDS, "kind": pl.String(), "starts_at": UTC_MICROSECONDS,
                "ends_at": UTC_MICROSECONDS, "proof": UTC_MICROSECONDS, "host": pl.Boolean(), "first": UTC_MICROSECONDS,
            }
        )  # fmt: skip

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        limits = limits_of(self.missed_intervals, context)
        carried = part(state, "row", PLAN)[PLAN_COLUMNS.names()]
        grace = timedelta(seconds=self.clean_end_grace_seconds)
        plans = new_plans(carried, tables[Maintenance], tables[JobEvent], grace)
        spread_plans = spread(plans, context.topology)
        meters_before = part(state, "row", METER)["entity", "time", "volts", "peak", "told"]
        samples = self._normal_volts(tables[Power], meters_before)
        meter_gaps, meters_after = silent_meters(tables[Power], samples, meters_before, limits, context)
        nodes_before = part(state, "row", NODE)
        paused, nodes_after = silent_nodes(tables, nodes_before, limits, context)
        loops_before = part(state, "row", LOOP)["entity", "time"]
        loops, loops_after = silent_loops(tables[CoolantLoop], loops_before, context, by="entity")
        lasting_plans = still_needed(plans, context.now, limits.node).sort(*PLAN_COLUMNS.names()[1:], "kind")
        node_gaps = paused.filter(pl.coalesce("until", pl.lit(context.now)) - pl.col("time") > limits.node)
        is_news = not (node_gaps["told"].all() and meter_gaps["told"].all())
        nothing_came = all(rows.is_empty() for rows in tables.values())
        if nothing_came and not is_news and lasting_plans.equals(carried):
            return Detection(NO_FINDINGS, state)
        standing = standing_of(nodes_before, nodes_after, tables[Heartbeat], tables[Gpu], by="entity", context=context)
        meant = forgiven(node_gaps, spread_plans, {"node": "entity", "job": "job"}, at="at", limit=limits.node)
        node_gaps = node_gaps.with_columns(meant=meant & ~node_gaps["told"])
        verdicts = [self._metered(samples, spread_plans)]
        if is_news and not node_gaps.is_empty():
            lost = self._lost(node_gaps, meter_gaps, nodes_before, meters_before, tables, samples, limits, context)
            lost = lost.filter(~forgiven(lost, spread_plans, {"pdu": "entity"}, at="time", limit=limits.node))
            if not lost.is_empty():
                together = _together(paused, standing, loops, spread_plans, context)
                asked = lost.select("first_silent_node", "onset", "time").iter_rows()
                lost = lost.filter(pl.Series([not together.common(*each) for each in asked], dtype=pl.Boolean))
            verdicts.append(lost)
        if node_gaps["until"].count():
            fed = nodes_fed_once(context.topology)
            verdicts.append(_returns(node_gaps, fed, meters_before, samples, limits.meter))
        before = part(state, "row", LEVEL)[*LEVEL_COLUMNS.names(), "onset"]
        said, levels_after = _levels([rows for rows in verdicts if not rows.is_empty()], before)
        # In order of row and entity, as they come.
        kept = [
            (LEVEL, levels_after), (LOOP, loops_after),
            (METER, _told(meters_after, meter_gaps.filter(pl.col("until").is_null()))),
            (NODE, _nodes_kept(nodes_after.hstack(standing["first", "host"]), paused, node_gaps)),
            (PLAN, lasting_plans),
        ]  # fmt: skip
        named = [rows.with_columns(row=pl.lit(row)) for row, rows in kept if not rows.is_empty()]
        after = pl.concat([pl.DataFrame(schema=self.keeps), *named], how="diagonal")
        return Detection(ordered(findings_frame(said, self.name, "power_domain_lost", "pdu")), after)

    def _lost(  # noqa: PLR0913, PLR0917  # who is silent, who is known, and since when
        self, node_gaps: pl.DataFrame, meter_gaps: pl.DataFrame, nodes_before: pl.DataFrame,
        meters_before: pl.DataFrame, tables: Mapping[type[dy.Schema], pl.DataFrame], samples: pl.DataFrame,
        limits: Limits, context: Context,
    ) -> pl.DataFrame:  # fmt: skip
        """Domains that are silent as a whole, whoever else is."""
        rules = SilenceRules(
            metered_share=self.metered_share, unmetered_share=self.unmetered_share,
            onset=timedelta(seconds=self.onset_seconds),
            node_interval=timedelta(seconds=context.intervals_seconds["heartbeat"]),
            meter_interval=timedelta(seconds=context.intervals_seconds["power"]),
        )  # fmt: skip
        beats = tables[Heartbeat].select("time", entity="node")
        return silent_domains(
            Heard(_unheard(node_gaps), _known_since(nodes_before, beats)),
            Heard(meter_gaps.with_columns(at=pl.col("time") + limits.meter), _known_since(meters_before, samples)),
            nodes_fed_once(context.topology), rules,
        )  # fmt: skip

    def _normal_volts(self, rows: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
        """Samples with normal_volts: the fading peak of what two samples in a row agreed on.

        In logarithms fading is a straight line, so the peak is a running maximum of log(volts) + time / constant,
        the same however the stream is cut.
        """
        if rows.is_empty():
            unread = {"breaker": pl.String(), "volts_read": pl.Float64(), "normal_volts": pl.Float64()}
            return before.clear().with_columns(pl.lit(None, dtype).alias(name) for name, dtype in unread.items())
        given = rows.select("time", "volts", "breaker", entity="pdu", told=pl.lit(False), carried=pl.lit(False))
        known = pl.col("volts").forward_fill()
        timeline = pl.concat([before.with_columns(carried=pl.lit(True)), given], how="diagonal").with_columns(
            volts_known=known.over("entity"), volts_before=known.shift(1).over("entity")
        )
        fading = pl.col("time").dt.epoch("us") * (1e-6 / self.normal_fades_seconds)
        lower = pl.col("volts_known") < pl.col("volts_before")
        agreed = pl.when(lower).then("volts_known").otherwise("volts_before")
        grown = pl.when(~pl.col("carried") & (agreed >= 1.0)).then(agreed.log() + fading).otherwise("peak")
        timeline = timeline.with_columns(peak=grown.cum_max().forward_fill().over("entity"))
        return timeline.filter(~timeline["carried"]).with_columns(
            volts_read="volts", volts="volts_known", normal_volts=(pl.col("peak") - fading).exp()
        )

    def _metered(self, samples: pl.DataFrame, plans: pl.DataFrame) -> pl.DataFrame:
        """Verdicts of meters that speak: bad, good, or null between the two shares."""
        if samples.is_empty():
            return samples
        volts, normal = pl.col("volts_read"), pl.col("normal_volts")
        opened = ((pl.col("breaker") == "open") | (pl.col("breaker") == "tripped")).fill_null(value=False)
        low = (volts < self.lost_share * normal).fill_null(value=False)
        back = (
            pl.when(volts.is_not_null())
            .then(volts >= self.back_share * normal)
            .otherwise(pl.col("breaker") == "closed")
        )
        verdict = pl.when(opened | low).then(pl.lit(True)).when(back).then(pl.lit(False))
        said = samples.with_columns(bad=verdict, volts="volts_read")
        if plans.is_empty():
            return said
        bad = said.filter("bad")
        meant = bad.filter(forgiven(bad, plans, {"pdu": "entity"}, at="time", limit=timedelta(0)))
        return said.join(meant.select("entity", "time"), on=["entity", "time"], how="anti", maintain_order="left")


def _together(
    paused: pl.DataFrame, standing: pl.DataFrame, loops: pl.DataFrame, plans: pl.DataFrame, context: Context
) -> Together:
    beat, loop = (context.intervals_seconds[name] for name in ("heartbeat", "coolant_loop"))
    meant = forgiven(paused, plans, {"node": "entity", "job": "job"}, at="at", limit=intervals(3, beat))
    scope = Scope(
        topology=context.topology, interval=timedelta(seconds=beat), loop_interval=timedelta(seconds=loop),
        hosts=frozenset(standing.filter("host")["entity"]),
    )  # fmt: skip
    return Together(paused.filter(~meant), standing.select("entity", since="first"), loops, scope)


def _nodes_kept(after: pl.DataFrame, paused: pl.DataFrame, gaps: pl.DataFrame) -> pl.DataFrame:
    """The nodes with what has been told and what their hosts have shown; those that were meant to leave are new."""
    if paused.is_empty():
        return after.with_columns(told=pl.lit(value=False), proof=pl.lit(None, UTC_MICROSECONDS))
    lasting = pl.col("until").is_null()
    left = gaps.filter(lasting & pl.col("meant"))
    shown = paused.filter(lasting).select("entity", "proof")
    return (
        _told(after, gaps.filter(lasting))
        .filter(~pl.col("entity").is_in(left["entity"].implode()))
        .join(shown, on="entity", how="left", maintain_order="left")
    )


def _unheard(gaps: pl.DataFrame) -> pl.DataFrame:
    """Silences at whose deadline the host has not spoken otherwise; those of others count as beats."""
    return gaps.filter(pl.col("proof").is_null() | (pl.col("proof") > pl.col("at")))


def _known_since(before: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """entity, since: first row of those not known before (null for those that were)."""
    fresh = rows.group_by("entity").agg(since=pl.col("time").min()).join(before, on="entity", how="anti")
    return pl.concat([before.select("entity", since=pl.lit(None, UTC_MICROSECONDS)), fresh])


def _returns(
    node_gaps: pl.DataFrame, fed: pl.DataFrame, meters_before: pl.DataFrame, samples: pl.DataFrame, limit: timedelta
) -> pl.DataFrame:
    """A silent node beats again: power is back, if the meter says nothing itself."""
    back = node_gaps.filter(pl.col("until").is_not_null() & ~pl.col("meant")).select("until", node="entity")
    back = back.join(fed, on="node").select("entity", time="until").sort("time")
    spoke = pl.concat([meters_before.select("entity", spoke="time"), samples.select("entity", spoke="time")]).sort(
        "spoke"
    )
    back = back.join_asof(
        spoke,
        left_on="time",
        right_on="spoke",
        by="entity",
        strategy="backward",
        coalesce=False,
        check_sortedness=False,
    )
    silent = pl.col("spoke").is_null() | (pl.col("time") - pl.col("spoke") > limit)
    return back.filter(silent).select("entity", "time", bad=pl.lit(False))


def _told(after: pl.DataFrame, lasting: pl.DataFrame) -> pl.DataFrame:
    return after.with_columns(told=pl.col("entity").is_in(lasting["entity"].implode()))


def _levels(found: list[pl.DataFrame], before: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Statements of change; and the state with the onset of each level, which its end repeats."""
    bad = [rows["entity"].filter(rows["bad"]) for rows in found]
    concerned = pl.concat([before["entity"], *bad]).unique()
    if not found or concerned.is_empty():
        return NO_FINDINGS, before
    asked = [rows.filter(pl.col("entity").is_in(concerned.implode())) for rows in found]
    samples = pl.concat([pl.DataFrame(schema=VERDICT_COLUMNS), *asked], how="diagonal")[VERDICT_COLUMNS.names()]
    samples = samples.sort("time", "entity", "bad", descending=[False, False, True], maintain_order=True)
    changes, after = levels(samples, before[LEVEL_COLUMNS.names()])
    began = changes.with_columns(onset=pl.when("active").then(pl.coalesce("onset", "first_bad_at")))
    known = pl.concat([before["entity", "onset"], began], how="diagonal")
    onsets = known.with_columns(pl.col("onset").forward_fill().over("entity"))
    latest = onsets.group_by("entity").agg(pl.col("onset").last())
    said = onsets.slice(before.height).with_columns(
        evidence(*SEEN), code=pl.lit("lost"), severity=pl.lit("page"), first_bad_at="onset",
        score=pl.col("active").cast(pl.Float64), threshold=pl.lit(1.0),
        action=pl.when("active").then(pl.lit("pause_stage")),
    )  # fmt: skip
    return said, after.join(latest, on="entity", how="left", maintain_order="left")
