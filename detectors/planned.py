"""What was meant to fall silent: maintenance windows, and jobs that ended cleanly.

Both are plans over an entity from one instant to another. A silence is forgiven when a plan over the entity, or over
something it lives in, touches the stretch of time on which it was judged.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

import numpy as np
import polars as pl

from schemas.columns import UTC_MICROSECONDS
from schemas.topology import Topology

PLAN_COLUMNS = pl.Schema(
    {"kind": pl.String(), "entity": pl.String(), "starts_at": UTC_MICROSECONDS, "ends_at": UTC_MICROSECONDS}
)
DOMAINS = ("pdu", "cdu", "superblock", "pod", "rack")
"""Domains whose maintenance takes their nodes away. A switch or a cable does not: its hosts go on beating."""


def with_windows(carried: pl.DataFrame, maintenance: pl.DataFrame) -> pl.DataFrame:
    """The plans carried, and the windows that this batch tells of. What is announced later of a window (the same entity
    from the same instant) takes the place of what was: it ends, lasts longer, or is cancelled by an end at its begin.
    """
    if maintenance.is_empty():
        return carried
    window = ["kind", "entity", "starts_at"]
    told = maintenance.sort("announced_at", "ends_at", descending=[False, True], maintain_order=True).select(
        "kind", "starts_at", "ends_at", entity="id"
    ).select(PLAN_COLUMNS.names()).unique(window, keep="last", maintain_order=True)  # fmt: skip
    lasting = told.filter(pl.col("ends_at").is_null() | (pl.col("ends_at") > pl.col("starts_at")))
    return pl.concat([carried.join(told, on=window, how="anti"), lasting])


def new_plans(
    carried: pl.DataFrame, maintenance: pl.DataFrame, job_events: pl.DataFrame, grace: timedelta
) -> pl.DataFrame:
    """The plans carried, and those that this batch tells of; mostly none."""
    plans = with_windows(carried, maintenance)
    return plans if job_events.is_empty() else pl.concat([plans, clean_ends(job_events, grace)])


def clean_ends(job_events: pl.DataFrame, grace: timedelta) -> pl.DataFrame:
    """A stop or restart is a short plan over its job: ranks leave just before it and up to `grace` after it."""
    ended = job_events.filter(pl.col("kind").is_in(["stop", "restart"]))
    return ended.select(
        pl.lit("job").alias("kind"), pl.col("job").alias("entity"), starts_at="time", ends_at=pl.col("time") + grace
    )


def staying(job_events: pl.DataFrame, grace: timedelta) -> pl.DataFrame:
    """Plans of kind "stays": a restart that names its members leaves their nodes in the job."""
    named = job_events.filter((pl.col("kind") == "restart") & (pl.col("members").list.len() > 0))
    nodes = named.select(
        "time", node=pl.col("members").list.eval(pl.element().str.split("/").list.first()).list.unique()
    )
    return nodes.explode("node", empty_as_null=False).select(
        pl.lit("stays").alias("kind"), pl.col("node").alias("entity"), starts_at="time", ends_at=pl.col("time") + grace
    )


def stays(judged: pl.DataFrame, plans: pl.DataFrame) -> pl.Series:
    """Whether each row's node was named by a restart and spoke after it (`time`), so that the restart is no excuse."""
    if plans.is_empty():
        return pl.Series("stays", np.zeros(judged.height, dtype=np.bool_))
    rows = judged.select("node", "time").with_row_index("row_number")
    named = rows.join(plans.filter(kind="stays"), left_on="node", right_on="entity")
    found = named.filter(pl.col("time") > pl.col("starts_at"))["row_number"]
    return rows.select(stays=pl.col("row_number").is_in(found.implode()))["stays"]


def still_needed(plans: pl.DataFrame, now: datetime, limit: timedelta) -> pl.DataFrame:
    """The plans that a deadline at or after `now`, looking back by `limit`, can still touch."""
    if plans.is_empty():
        return plans
    return plans.filter(pl.col("ends_at").is_null() | (pl.col("ends_at") > now - limit)).unique().sort(pl.all())


def spread(plans: pl.DataFrame, topology: Topology) -> pl.DataFrame:
    """Plans over a domain become plans over the domain and each of its nodes."""
    if plans.is_empty():
        return plans
    wide = plans.filter(pl.col("kind").is_in(DOMAINS))
    nodes = [
        (topology.nodes_under(kind, entity), starts_at, ends_at)
        for kind, entity, starts_at, ends_at in wide.iter_rows()
    ]
    below = pl.DataFrame(
        nodes,
        schema={"entity": pl.List(pl.String), "starts_at": UTC_MICROSECONDS, "ends_at": UTC_MICROSECONDS},
        orient="row",
    ).explode("entity", empty_as_null=False)
    return pl.concat([plans, below.select(pl.lit("node").alias("kind"), "entity", "starts_at", "ends_at")])


def loops_in(plans: pl.DataFrame, topology: Topology) -> pl.DataFrame:
    """cdu, starts_at, ends_at: plans over a loop, or over a superblock or pod that all nodes of the loop are in."""
    own = plans.filter(kind="cdu").select("starts_at", "ends_at", cdu="entity")
    if plans.is_empty():
        return own
    found = [own]
    for kind in ("superblock", "pod"):
        wide = plans.filter(kind=kind)
        if not wide.is_empty():
            cooled = topology.nodes.filter(pl.col("cdu").is_not_null()).group_by("cdu").agg(pl.col(kind).unique())
            whole = cooled.filter(pl.col(kind).list.len() == 1).with_columns(pl.col(kind).list.first())
            found.append(wide.join(whole, left_on="entity", right_on=kind).select("starts_at", "ends_at", "cdu"))
    return pl.concat(found)


def during(rows: pl.DataFrame, loops: pl.DataFrame, *, by: str, after: timedelta = timedelta(0)) -> pl.Series:
    """Whether each row's time lies in a window of its loop (`by`), or no longer than `after` behind its end."""
    if loops.is_empty() or rows.is_empty():
        return pl.Series("planned", np.zeros(rows.height, dtype=np.bool_))
    numbered = rows.select("time", by).with_row_index("row_number")
    inside = numbered.join(loops, left_on=by, right_on="cdu").filter(
        (pl.col("starts_at") <= pl.col("time"))
        & (pl.col("ends_at").is_null() | (pl.col("time") < pl.col("ends_at") + after))
    )
    return numbered.select(planned=pl.col("row_number").is_in(inside["row_number"].implode()))["planned"]


def forgiven(
    judged: pl.DataFrame, plans: pl.DataFrame, keys: Mapping[str, str], *, at: str, limit: timedelta
) -> pl.Series:
    """Whether a plan touches [at - limit, at], for each row. keys: kind of plan -> the row's column with the id."""
    if plans.is_empty() or judged.is_empty():
        return pl.Series("forgiven", np.zeros(judged.height, dtype=np.bool_))
    rows = judged.with_row_index("row_number")
    touched = [
        rows.join(plans.filter(kind=kind), left_on=column, right_on="entity")
        .filter(pl.col("starts_at") <= pl.col(at))
        .filter(pl.col("ends_at").is_null() | (pl.col("ends_at") > pl.col(at) - limit))
        .select("row_number")
        for kind, column in keys.items()
    ]  # fmt: skip
    return rows.select(forgiven=pl.col("row_number").is_in(pl.concat(touched)["row_number"].implode()))["forgiven"]


def forgiven_links(
    judged: pl.DataFrame, plans: pl.DataFrame, topology: Topology, *, at: str, limit: timedelta
) -> pl.Series:
    """The same for rows whose `entity` is a link: a plan over it, over a device at either end, or over its host."""
    ends = judged.select("entity", at).join(
        topology.links.select(
            "a", "b", entity="cable", a_node=pl.col("a").str.split("/").list.first(),
            b_node=pl.col("b").str.split("/").list.first(),
        ),
        on="entity", how="left", maintain_order="left",
    )  # fmt: skip
    ours = [{"link": "entity", "node": "a_node", "switch": "a"}, {"cable": "entity", "node": "b_node", "switch": "b"}]
    one, other = (forgiven(ends, plans, keys, at=at, limit=limit) for keys in ours)
    return one | other
