"""When the silence of a meter and of its nodes, taken together, is the loss of a power domain."""

from dataclasses import dataclass
from datetime import timedelta

import polars as pl

from schemas.topology import Topology

DOMAIN_EVIDENCE = ("silent_nodes", "beating_nodes", "meter_last_sample_at", "first_silent_node", "newest_beat_at")
UNMETERED_NODES_MINIMUM = 2
"""One silent node without a meter is a lost node."""


@dataclass(frozen=True, kw_only=True)
class SilenceRules:
    metered_share: float
    unmetered_share: float
    onset: timedelta
    node_interval: timedelta
    meter_interval: timedelta


@dataclass(frozen=True)
class Heard:
    """gaps: entity, time (last row), until, at (deadline), told; of nodes also meant. known: entity, since (null:
    before this batch), of everything that has ever spoken.
    """

    gaps: pl.DataFrame
    known: pl.DataFrame


def nodes_fed_once(topology: Topology) -> pl.DataFrame:
    """node, entity (its PDU) of nodes with one feed: only these prove anything about their PDU."""
    once = pl.col("pdu").is_not_null() & pl.col("pdu_b").is_null()
    return topology.nodes.filter(once).select("node", entity="pdu")


def silent_domains(nodes: Heard, meters: Heard, fed: pl.DataFrame, rules: SilenceRules) -> pl.DataFrame:
    """Domains judged lost, at the deadlines of this batch: entity, time, bad, onset and DOMAIN_EVIDENCE.

    fed: node, entity. A deadline of an earlier batch was judged then; its silence still counts at those of this one.
    """
    node_gaps, meter_gaps, meters_known = nodes.gaps, meters.gaps, meters.known
    silent = node_gaps.rename({"entity": "node"}).join(fed, on="node")
    points = pl.concat([
        silent.filter(~pl.col("told")).select("entity", point="at"),
        meter_gaps.filter(~pl.col("told")).select("entity", point="at"),
    ]).unique()  # fmt: skip
    known_meters = points.join(meters_known, on="entity", how="left").with_columns(
        metered=pl.col("entity").is_in(meters_known["entity"].implode())
        & (pl.col("since").is_null() | (pl.col("since") <= pl.col("point")))
    )
    lasting = (pl.col("at") <= pl.col("point")) & (pl.col("until").is_null() | (pl.col("until") > pl.col("point")))
    meter_silent = known_meters.join(meter_gaps.select("entity", "at", "until", meter="time"), on="entity").filter(
        lasting
    )
    judged = known_meters.select("entity", "point", "metered").join(
        meter_silent.select("entity", "point", "meter"), on=["entity", "point"], how="left"
    ).filter(~pl.col("metered") | pl.col("meter").is_not_null())  # fmt: skip
    quiet = judged.join(silent.select("entity", "node", "time", "until", "at", "meant"), on="entity").filter(lasting)
    newest = pl.col("time").filter(~pl.col("meant")).max().over("entity", "point")
    near_meter = pl.col("time").is_between(
        pl.col("meter") - rules.node_interval - rules.onset, pl.col("meter") + rules.meter_interval + rules.onset
    )
    near = pl.when(pl.col("metered")).then(near_meter).otherwise(pl.col("time") >= newest - rules.onset)
    counted = quiet.with_columns(near=near & ~pl.col("meant")).group_by("entity", "point").agg(
        pl.col("metered", "meter").first(), quiet=pl.len(), silent_nodes=pl.col("near").sum(),
        onset=pl.col("time").filter("near").max(), first_silent_node=pl.col("node").filter("near").sort().first(),
    )  # fmt: skip
    population = judged.select("entity", "point").join(fed, on="entity").join(
        nodes.known.rename({"entity": "node"}), on="node"
    ).filter(pl.col("since").is_null() | (pl.col("since") <= pl.col("point")))  # fmt: skip
    known = population.group_by("entity", "point").agg(known=pl.len())
    share = pl.when("metered").then(rules.metered_share).otherwise(rules.unmetered_share)
    enough = pl.when("metered").then(1).otherwise(UNMETERED_NODES_MINIMUM)
    weighed = counted.join(known, on=["entity", "point"]).with_columns(
        beating_nodes=pl.col("known").cast(pl.Int64) - pl.col("quiet").cast(pl.Int64),
        silent_nodes=pl.col("silent_nodes").cast(pl.Int64),
    )
    lost = (pl.col("silent_nodes") >= enough) & (
        pl.col("silent_nodes") >= share * (pl.col("silent_nodes") + pl.col("beating_nodes"))
    )
    return weighed.filter(lost).select(
        "entity", "onset", "silent_nodes", "beating_nodes", "first_silent_node", time="point", bad=pl.lit(True),
        meter_last_sample_at="meter", newest_beat_at="onset",
    ).sort("time", "entity")  # fmt: skip
