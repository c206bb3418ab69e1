"""Nodes whose every rank has stopped beating: which of them are lost, and which are only not heard."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import polars as pl

from detectors.contract import Context
from detectors.heard import heard, rows_of
from detectors.planned import forgiven
from detectors.silence import intervals, silences
from detectors.together import MANY_NODES, Scope, Together
from schemas.columns import UTC_MICROSECONDS
from schemas.topology import Topology

ASKED_AGAIN = timedelta(seconds=10)
"""A silence that is not a node's own is looked at again so often: who does not come back with the others is lost."""
CLOCKS_APART = timedelta(seconds=2)
FEW_CLOCKS = 0.1
Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """suspect, dead: after the last beat. missed: when one beat is. host: when a host is missed that sent tables."""

    interval: timedelta
    missed: timedelta
    suspect: timedelta
    dead: timedelta
    grace: timedelta
    host: timedelta


def limits_of(missed_suspect: float, missed_dead: float, context: Context) -> Limits:
    interval = context.intervals_seconds["heartbeat"]
    dead = intervals(missed_dead, interval)
    return Limits(
        interval=timedelta(seconds=interval), missed=intervals(1, interval),
        suspect=intervals(missed_suspect, interval), dead=dead, grace=timedelta(seconds=1.5 * interval),
        host=max(dead, intervals(missed_dead, context.intervals_seconds["gpu"])),
    )  # fmt: skip


def silent(
    beats: pl.DataFrame, by: tuple[str, ...], before: pl.DataFrame, limit: timedelta, context: Context
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Silences of ranks or nodes longer than the limit, and the last beat of each: see `silences`."""
    told: dict[str, pl.Expr] = {"suspect": pl.lit(None, pl.Boolean), "dead": pl.lit(value=False)}
    told |= dict.fromkeys(("since", "proof", "again"), pl.lit(None, UTC_MICROSECONDS))
    seen = heard(context, beats, by)
    last = seen["id", "time", "first", "longest"].hstack([beats["job"][seen["row"]]])
    return silences(
        last, before, by="id", now=context.now, limit=limit,
        rows_of=lambda ids: rows_of(beats, by, ids).with_columns(**told),
    )  # fmt: skip


def head_starts(gaps: pl.DataFrame, firsts: pl.DataFrame, context: Context, limits: Limits) -> dict[str, timedelta]:
    """How far the clock of each silent node is slow, where its rows began that much before all others' did.

    In rows by event time a slow clock begins early and ends early. firsts: id, first (beat). Only nodes with which
    the stream begins are asked, and only few can be wrong: a partition or a job that begins early is no clock.
    """
    is_early = (firsts["first"] <= context.began + limits.grace) & firsts["id"].is_in(gaps["id"].unique().implode())
    if not is_early.any():
        return {}
    first_seconds = firsts["first"].to_physical().to_numpy() / 1e6
    ahead_seconds = np.median(first_seconds) - first_seconds
    if (ahead_seconds > CLOCKS_APART.total_seconds()).sum() > max(1, FEW_CLOCKS * firsts.height):
        return {}
    early = zip(firsts["id"].filter(is_early), ahead_seconds[is_early.to_numpy()].tolist(), strict=True)
    late = {node: timedelta(seconds=seconds) for node, seconds in early}
    return {node: lag for node, lag in late.items() if lag > CLOCKS_APART}


@dataclass(frozen=True, kw_only=True)
class Silence:
    """What is asked about a silence: together, and the silences of whole jobs. many: jobs of several power domains."""

    together: Together
    jobs: Mapping[str, tuple[tuple[datetime, datetime | None], ...]]
    many: frozenset[str]

    def job_silent(self, job: str, at: datetime) -> bool:
        return self.job_returns(job, at) is not False

    def job_returns(self, job: str, at: datetime) -> datetime | bool | None:
        """When the silence of the whole job ends that lasts at the instant (None: not yet); False if there is none."""
        for last, until in self.jobs.get(job, ()):
            if last < at and (until is None or until > at):
                return until
        return False

    def excuses(self, node: Row, at: datetime) -> bool:
        """Whether the node's silence is not its own: its host speaks, its job is gone, or the collector is."""
        if node["proof"] is not None and node["proof"] <= at:
            return True
        if node["job"] in self.many and self.job_silent(node["job"], at):
            return True
        return self.together.common(node["id"], node["time"], at)


def verdicts(nodes: pl.DataFrame, silence: Silence, now: datetime) -> pl.DataFrame:
    """Silences judged by their length, without what is not the node's own doing. Asked again as long as they last.

    nodes: of `judged` in detectors/job/heartbeat.py, with proof and again. Returns them with dead_at moved to when
    they were found lost, and `again`, the next instant at which to ask.
    """
    if not (nodes["says_suspect"] | nodes["says_dead"]).any():
        return nodes
    found = [_verdict(row, silence, now) for row in nodes.iter_rows(named=True)]
    schema = {name: nodes.schema[name] for name in ("says_suspect", "says_dead", "dead_at", "again")}
    return nodes.with_columns(pl.DataFrame(found, schema=schema, orient="row").get_columns())


def _verdict(row: Row, silence: Silence, now: datetime) -> tuple[object, ...]:
    suspect = row["says_suspect"] and not silence.excuses(row, row["suspect_at"])
    at, end = row["again"] or row["dead_at"], row["until"] or now
    if not row["says_dead"]:
        return suspect, False, row["dead_at"], row["again"]
    while at < end and silence.excuses(row, at):
        at += ASKED_AGAIN
    return suspect, at < end, at, at


def many_domains(nodes: pl.DataFrame, topology: Topology) -> frozenset[str]:
    """Jobs that no single failure domain can take: many nodes of several power domains. nodes: id, job."""
    if nodes.height < MANY_NODES:
        return frozenset()
    known = topology.node_rows
    found = nodes.group_by("job").agg("id").filter(pl.col("id").list.len() >= MANY_NODES)
    pdus = {job: {known[node]["pdu"] if node in known else None for node in ids} for job, ids in found.iter_rows()}
    return frozenset(job for job, several in pdus.items() if len(several) > 1)


def silence_of(  # noqa: PLR0913, PLR0917  # who is silent, where, and what excuses it
    gaps: pl.DataFrame, standing: pl.DataFrame, loops: pl.DataFrame, jobs: pl.DataFrame, plans: pl.DataFrame,
    limits: Limits, context: Context,
) -> Silence:  # fmt: skip
    judged = gaps.with_columns(at=pl.col("time") + limits.dead)
    meant = forgiven(judged, plans, {"node": "id", "job": "job"}, at="at", limit=limits.dead)
    scope = Scope(
        topology=context.topology, interval=limits.interval,
        loop_interval=timedelta(seconds=context.intervals_seconds["coolant_loop"]),
        hosts=frozenset(standing["id"].filter(standing["host"])),
    )  # fmt: skip
    together = Together(
        gaps.filter(~meant).rename({"id": "entity"}), standing.select(entity="id", since="first"),
        loops.rename({"id": "entity"}), scope,
    )  # fmt: skip
    spans: dict[str, tuple[tuple[datetime, datetime | None], ...]] = {}
    for job, last, until in jobs.select("id", "time", "until").iter_rows():
        spans[job] = (*spans.get(job, ()), (last, until))
    return Silence(together=together, jobs=spans, many=many_domains(gaps, context.topology))


def shown(gaps: pl.DataFrame, silence: Silence, limits: Limits) -> pl.DataFrame:
    """id, last, shown, at, returned: when the host of a silent node has shown that it goes on without its ranks, and
    its job too; returned where the job was silent until then. Ranks have their usual time to come back with it.
    """
    found = []
    proofs = gaps["id", "job", "time", "until", "proof"].filter(gaps["proof"].is_not_null())
    for node, job, last, until, proof in proofs.iter_rows():
        returns = silence.job_returns(job, proof)
        at = proof if returns is False else returns
        if isinstance(at, datetime) and (until is None or at < until):
            waits = limits.dead if at > last + limits.dead else timedelta(0)
            found.append((node, last, at, max(at + waits, last + limits.grace), returns is not False))
    schema = {"id": pl.String(), "last": UTC_MICROSECONDS, "shown": UTC_MICROSECONDS, "at": UTC_MICROSECONDS}
    schema["returned"] = pl.Boolean()
    return pl.DataFrame(found, schema=schema, orient="row")
