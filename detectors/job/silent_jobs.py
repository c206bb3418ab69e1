"""Jobs of which no rank beats any more, though nothing has said that they ended."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl

from detectors.contract import NO_FINDINGS, evidence
from detectors.heard import heard_in
from detectors.job.silent_nodes import ASKED_AGAIN, Limits, Silence
from detectors.planned import forgiven
from detectors.silence import seconds, silences
from detectors.stats.adjacent import differs
from detectors.stats.sorted_state import part
from schemas.columns import UTC_MICROSECONDS

JOB, START = "job", "start"
JOB_COLUMNS = ("id", "time", "suspect", "dead", "again", "evidence")
TURNS = ("start", "stop", "restart")


def job_silences(  # noqa: PLR0913, PLR0917  # rows, state and limits of one table
    beats: pl.DataFrame, events: pl.DataFrame, state: pl.DataFrame, plans: pl.DataFrame, limits: Limits, now: datetime
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Silences of whole jobs that nothing planned explains, with JOB_COLUMNS; and rows JOB and START of the state.

    A start, stop or restart ends a silence too; what follows it is not judged before the first beat (`suspect` false).
    """
    before = part(state, "row", JOB)[JOB_COLUMNS]
    turns = events.filter(pl.col("kind").is_in(TURNS))
    rows = _spoken(beats, turns, before)
    seen = heard_in(rows, ("id",))
    last = rows[seen["row"]].hstack([seen["first"], seen["longest"]])
    gaps, after = silences(
        last, before, by="id", now=now, limit=limits.missed,
        rows_of=lambda jobs: rows.filter(pl.col("id").is_in(jobs.implode())),
    )  # fmt: skip
    if not gaps.is_empty():
        judged = gaps.with_columns(at=pl.col("time") + limits.dead)
        meant = forgiven(judged, plans, {"job": "id"}, at="at", limit=limits.dead) & ~gaps["dead"]
        over = gaps["id"].filter(meant & gaps["until"].is_null() & (judged["at"] < now))
        after = after.filter(~pl.col("id").is_in(over.implode()))
        gaps = gaps.filter(~meant & pl.col("suspect").is_null())
    starts = _started(turns, part(state, "row", START)["id", "time"])
    return gaps, pl.concat(
        [after.with_columns(row=pl.lit(JOB)), starts.with_columns(row=pl.lit(START))], how="diagonal"
    )


def _spoken(beats: pl.DataFrame, turns: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    """JOB_COLUMNS of the instants at which a job was heard of. Rows of a node that come late take its job's last beat
    not back.
    """
    # All ranks of a node say the same at the same time, and their rows come one behind the other.
    heard = beats["time", "job"][np.flatnonzero(differs(beats["time"]) | differs(beats["job"]))]
    spoken = heard.select("time", id="job", suspect=pl.lit(None, pl.Boolean))
    if not turns.is_empty():
        spoken = pl.concat([spoken, turns.select("time", id="job", suspect=pl.lit(value=False))])
    if spoken.is_empty():
        return before.clear()
    known = before.select("id", known="time")
    spoken = spoken.unique().join(known, on="id", how="left").filter(
        pl.col("known").is_null() | (pl.col("time") > pl.col("known"))
    )  # fmt: skip
    return spoken.sort("time", "id", "suspect", nulls_last=True).with_columns(
        dead=pl.lit(value=False), again=pl.lit(None, UTC_MICROSECONDS), evidence=pl.lit(None, pl.String)
    ).select(JOB_COLUMNS)  # fmt: skip


def _started(turns: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """id, time: the last start or restart of each job that has not stopped since, in order of id."""
    if turns.is_empty():
        return known
    told = pl.concat([
        known.with_columns(kind=pl.lit("start")), turns.select(pl.col("job").alias("id"), "time", "kind")
    ])  # fmt: skip
    last = told.sort("time", maintain_order=True).group_by("id", maintain_order=True).last()
    return last.filter(pl.col("kind") != "stop").select("id", "time").sort("id")


def said_of_jobs(  # noqa: PLR0913, PLR0917  # silences of nodes and jobs, and what is known of them
    gaps: pl.DataFrame, standing: pl.DataFrame, jobs: pl.DataFrame, after: pl.DataFrame, silence: Silence,
    limits: Limits, now: datetime,
) -> tuple[pl.DataFrame, pl.DataFrame]:  # fmt: skip
    """Statements on jobs, and the rows of the state with what has been said."""
    if jobs.is_empty():
        return NO_FINDINGS, after
    nodes = gaps.join(standing.select("id", "host"), on="id", how="left")
    asked = jobs.filter(~pl.col("dead"))
    found = list(_silent_jobs(asked, nodes, silence, limits, now))
    schema = {
        "id": pl.String(), "time": UTC_MICROSECONDS, "at": UTC_MICROSECONDS, "asked": UTC_MICROSECONDS,
        "nodes": pl.List(pl.String()),
    }  # fmt: skip
    starts = after.filter(row=START).select("id", started="time")
    begun = pl.DataFrame(found, schema=schema, orient="row").join(starts, on="id", how="left")
    announced = (pl.col("started") <= pl.col("at")).fill_null(value=False)
    begun = begun.with_columns(
        severity=pl.when(announced).then(pl.lit("page")).otherwise(pl.lit("ticket")), job="id", last_beat_at="time"
    ).with_columns(evidence("job", "last_beat_at", "nodes"))  # fmt: skip
    begins = begun.drop_nulls("at").with_columns(active=pl.lit(value=True), action=pl.lit("restart_app"))
    told = pl.concat([
        jobs.filter("dead").select("id", "time", "evidence"), begins.select("id", "time", "evidence")
    ]).join(jobs.select("id", "time", "until"), on=["id", "time"])  # fmt: skip
    paged = pl.col("evidence").is_not_null()
    ends = told.filter(pl.col("until").is_not_null()).select("id", "time", "evidence", at="until").with_columns(
        active=pl.lit(value=False), severity=pl.when(paged).then(pl.lit("page"))
    )  # fmt: skip
    said = pl.concat([begins, ends], how="diagonal").with_columns(
        entity="id", code=pl.lit("silent"), first_bad_at=pl.col("time") + limits.interval,
        score=seconds(pl.col("at") - pl.col("time")), threshold=pl.lit(limits.dead.total_seconds()),
    ).with_columns(time="at")  # fmt: skip
    lasting = begun.join(jobs.filter(pl.col("until").is_null()), on=["id", "time"], how="semi").select(
        "id", "asked", now_said=pl.col("at").is_not_null(), now_evidence="evidence"
    )
    fresh = pl.col("now_said").fill_null(value=False)
    after = after.join(lasting, on="id", how="left", maintain_order="left").with_columns(
        dead=pl.col("dead") | fresh, again=pl.coalesce("asked", "again"),
        evidence=pl.when(fresh).then("now_evidence").otherwise("evidence"),
    ).drop("asked", "now_said", "now_evidence")  # fmt: skip
    return said, after


def _silent_jobs(
    gaps: pl.DataFrame, nodes: pl.DataFrame, silence: Silence, limits: Limits, now: datetime
) -> Iterator[tuple[Any, ...]]:
    """Jobs of which no rank beats while their hosts go on, or while whoever shares no domain with them does.

    gaps: id, time, until, again, told of whole jobs, unplanned. nodes: silences of nodes with job, proof and host.
    Yields id, time, at (null: not said), when to ask again, nodes.
    """
    for row in gaps.iter_rows(named=True):
        end, judged_at = row["until"] or now, row["time"] + limits.dead
        mine = nodes.filter(
            (pl.col("job") == row["id"]) & (pl.col("time") <= row["time"])
            & (pl.col("until").is_null() | (pl.col("until") >= end))
        ).sort("id")  # fmt: skip
        proofs = mine["proof"].drop_nulls()
        waits = row["time"] + limits.host if mine["host"].any() else judged_at
        at = row["again"] or (waits if proofs.is_empty() else min(waits, max(judged_at, proofs.min())))
        names, last = mine["id"].to_list(), mine["time"].to_list()
        while at < end:
            shown = not proofs.is_empty() and proofs.min() <= at
            gone = row["id"] in silence.many and not silence.together.common(names[0], last[0], at) if names else False
            if shown or gone:
                break
            at += ASKED_AGAIN
        yield row["id"], row["time"], at if at < end else None, at, names
