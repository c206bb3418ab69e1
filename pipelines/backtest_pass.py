"""One pass over a long window of the store with two settings at once, in memory that does not grow with its rows.

Both settings are given the same windows of rows. Detectors that both share are asked once: what they say is heard by
both. What is kept is incidents, requested actions, and findings that only one of the two made.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import dataframely as dy
import polars as pl

from detectors.contract import FINDING_COLUMNS, Context, Detection, Detector
from pipelines.engine import Engine, EngineState
from pipelines.rejudge import COMPARED, Rejudged, steps
from pipelines.rounds import Side
from pipelines.settings import Settings, configured
from pipelines.sources.contract import Source

FINDINGS_KEPT_MAXIMUM = 100_000  # of either side; some 10 MB
FINDINGS_SCHEMA = pl.Schema({name: FINDING_COLUMNS[name] for name in COMPARED})


@dataclass(frozen=True, kw_only=True)
class Reached:
    """How far a pass is. done, total: seconds of cluster time."""

    at: datetime
    done_seconds: float
    total_seconds: float
    incidents: int


def tenths(say: Callable[[str], None]) -> Callable[[Reached], None]:
    """Progress in words, a line for each tenth of the way."""
    told = [0]

    def follow(reached: Reached) -> None:
        tenth = int(10 * reached.done_seconds / reached.total_seconds) if reached.total_seconds else 0
        if tenth > told[0]:
            told[0] = tenth
            say(f"backtest: {10 * tenth} %, {reached.at:%Y-%m-%d %H:%M} UTC, {reached.incidents} incidents")

    return follow


@dataclass(frozen=True, kw_only=True)
class Passed:
    """before, after: what either settings made of the window; before is None where only one was asked. Findings are
    those that only one side made, or all of the one. watched_seconds: cluster time from `counted_from` on. gpu_hours:
    the same for each GPU of the topology. findings_dropped: findings beyond what is kept.
    """

    before: Rejudged | None
    after: Rejudged
    watched_seconds: float
    gpu_hours: float
    findings_dropped: int


@dataclass
class Kept:
    """Findings to tell a difference by, up to a bound."""

    kept: list[pl.DataFrame] = field(default_factory=lambda: [pl.DataFrame(schema=FINDINGS_SCHEMA)])
    rows: int = 0
    dropped: int = 0

    def add(self, findings: pl.DataFrame) -> None:
        room = max(0, FINDINGS_KEPT_MAXIMUM - self.rows)
        self.rows += min(room, findings.height)
        self.dropped += max(0, findings.height - room)
        if room and findings.height:
            self.kept.append(findings.head(room))


@dataclass(frozen=True)
class Other:
    """A detector as the other settings have it, beside the same one of the first: asked in the same step, under a name
    of its own.
    """

    detector: Detector

    @property
    def name(self) -> str:
        return f"{self.detector.name} (others)"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return self.detector.reads

    @property
    def keeps(self) -> pl.Schema:
        return self.detector.keeps

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        found = self.detector.detect(tables, state, context)
        return Detection(found.findings.with_columns(detector=pl.lit(self.name)), found.state)


def apart(findings: pl.DataFrame, others: Sequence[Other]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """What either settings say, of the findings of a step in which both were asked."""
    if not others:
        return findings, findings
    own = {one.name: one.detector.name for one in others}
    is_other = pl.col("detector").is_in(list(own))
    replaced = pl.col("detector").is_in(list(own.values()))
    return findings.filter(~is_other), findings.filter(~replaced).with_columns(pl.col("detector").replace(own))


@dataclass
class Heard:
    """What one settings have made of the pass so far."""

    side: Side
    kept: Kept = field(default_factory=Kept)

    def end(self, engine: Engine, state: EngineState) -> None:
        """Nothing is known of what is still open beyond the end of a source; the next one begins anew."""
        self.side.end(engine, state)
        at = state.now
        lasting = [one for one in self.side.incidents.values() if one.ends_at is None]
        self.side.incidents |= {one.id: replace(one, ends_at=at) for one in lasting}

    def so_far(self, until: datetime | None) -> Rejudged:
        return Rejudged(
            findings=pl.concat(self.kept.kept), incidents=self.side.incidents,
            actions=tuple(self.side.actions.values()), until=until,
        )  # fmt: skip


def pass_over(
    sources: Sequence[Source],
    before: Settings | None,
    after: Settings,
    counted_from: datetime,
    progress: Callable[[Reached], None] = lambda _: None,
) -> Passed:
    """Every source in turn, each with engines of its own. Raises SourceError, StoreUnavailable."""
    one = None if before is None else Heard(Side(before, slim=True))
    other = Heard(Side(after, slim=True))
    heard = [side for side in (one, other) if side is not None]
    total = sum(source.span_seconds or 0.0 for source in sources)
    until: datetime | None = None
    done = watched = gpu_hours = 0.0
    for source in sources:
        last: tuple[Engine, EngineState] | None = None
        for last in _judged(source, one, other):
            state = last[1]
            until = state.now
            reached = done + (state.now - state.began).total_seconds()
            progress(
                Reached(at=state.now, done_seconds=reached, total_seconds=total,
                        incidents=len(other.side.incidents))
            )  # fmt: skip
        done += source.span_seconds or 0.0
        if last is not None:
            state = last[1]
            seconds = max(timedelta(), state.now - max(state.began, counted_from)).total_seconds()
            watched += seconds
            gpu_hours += seconds / 3600 * source.topology.nodes.height * source.topology.gpus_per_node
            for each in heard:
                each.end(*last)
    for each in heard:
        each.side.close()
    return Passed(
        before=None if one is None else one.so_far(until), after=other.so_far(until), watched_seconds=watched,
        gpu_hours=gpu_hours, findings_dropped=sum(each.kept.dropped for each in heard),
    )  # fmt: skip


def _judged(source: Source, one: Heard | None, other: Heard) -> Iterator[tuple[Engine, EngineState]]:
    """The state after each step, with both sides told of it. Rows of the store bear their names already; what the
    first's settings know of names holds for both.
    """
    settings = other.side.settings if one is None else one.side.settings
    detectors = configured(settings)
    differing = [new for old, new in zip(detectors, configured(other.side.settings), strict=True) if old != new]
    others = tuple(Other(detector) for detector in differing)
    for engine, step, _ in steps(source, settings, (*detectors, *others)):
        findings, theirs = apart(step.findings, others)
        other.side.hear(theirs, step.accepted, engine, step.state)
        if one is None:
            other.kept.add(theirs.select(COMPARED))
        else:
            one.side.hear(findings, step.accepted, engine, step.state)
            _keep_differing(findings, theirs, one.kept, other.kept)
        yield engine, step.state


def _keep_differing(old: pl.DataFrame, new: pl.DataFrame, before: Kept, after: Kept) -> None:
    mine, theirs = old.select(COMPARED), new.select(COMPARED)
    before.add(mine.join(theirs, on=COMPARED, how="anti", nulls_equal=True, maintain_order="left"))
    after.add(theirs.join(mine, on=COMPARED, how="anti", nulls_equal=True, maintain_order="left"))
