"""Ranks that have stopped beating: which of them alone, while their node goes on."""

import polars as pl

from detectors.heard import BY_NODE, rows_of
from detectors.job.silent_nodes import Limits
from detectors.silence import heard_alone, returned
from detectors.stats.sorted_state import located


def is_told(gaps: pl.DataFrame, quiet: pl.DataFrame, jobs: pl.DataFrame, nodes: pl.DataFrame, limits: Limits) -> bool:
    """Whether all who are silent are dead nodes, dead ranks, and ranks whose node has not been heard without them."""
    at, there = located(nodes["id"], quiet["id"].str.split("/").list.first())
    if not there.all() or not jobs.is_empty() or gaps["proof"].count():
        return False  # a dead rank is remembered when its node is forgotten, which left as planned
    with_node = nodes["time"][at] < quiet["time"] + limits.grace
    return bool(gaps["dead"].all() and (quiet["dead"] | with_node).all())


def possible(quiet: pl.DataFrame, nodes: pl.DataFrame, alive: pl.DataFrame, limits: Limits) -> pl.DataFrame:
    """Silences that were told, and those of ranks whose `node` has been heard since: few, when nodes are lost."""
    quiet = quiet.with_columns(node=pl.col("id").str.split("/").list.first())
    quiet = quiet.join(nodes.select(node="id", newest="time"), on="node", how="left", maintain_order="left")
    since = (quiet["newest"] >= quiet["time"] + limits.grace) | quiet["node"].is_in(alive["id"].implode())
    return quiet.drop("newest").filter(quiet["dead"] | since)


def alone_of(  # noqa: PLR0913, PLR0917  # who is silent, and who goes on or has come back
    quiet: pl.DataFrame, beats: pl.DataFrame, nodes_before: pl.DataFrame, lost: pl.DataFrame, alive: pl.DataFrame,
    limits: Limits,
) -> pl.DataFrame:  # fmt: skip
    """Silences of ranks whose node is heard without them, and of those told dead before. quiet: of `possible`."""
    told = quiet.filter("dead").with_columns(base="time", heard="time")
    if told.height == quiet.height:
        return told
    nodes = quiet["node"].unique()
    heard = pl.concat([
        nodes_before.select("time", node="id"), rows_of(beats, BY_NODE, nodes).select("time", "node"),
        alive.select(time="at", node="id"),
    ])  # fmt: skip
    heard = heard.filter(pl.col("node").is_in(nodes.implode())).unique()
    returns = returned(nodes_before, lost, by="id").select("time", node="id")
    alone = heard_alone(quiet.filter(~pl.col("dead")), heard, returns, group="node", grace=limits.grace)
    return pl.concat([alone, told])
