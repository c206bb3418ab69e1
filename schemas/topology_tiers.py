"""Which tier a cable is of, where nobody wrote it down: by how far its ends are from the hosts."""

from collections import deque

import polars as pl

from schemas.topology import TIERS

# A leaf spends at least this share of its cables on hosts; a management host on a spine does not make that a leaf.
LEAF_HOST_SHARE = 0.1


def switch_levels(links: pl.DataFrame) -> dict[str, int]:
    """Switch -> 1 for a leaf, 2 above it, and so on. links: a, b; an end with a slash is an HCA.

    A switch without hosts of its own counts from the nearest leaf; one that no cable joins to a leaf is left out.
    """
    ends = pl.concat([links.select(device="a", peer="b"), links.select(device="b", peer="a")])
    ends = ends.filter(~pl.col("device").str.contains("/", literal=True)).with_columns(
        to_host=pl.col("peer").str.contains("/", literal=True)
    )
    shares = ends.group_by("device").agg(pl.col("to_host").mean()).filter(pl.col("to_host") > 0)
    leaves = shares.filter(pl.col("to_host") >= LEAF_HOST_SHARE) if shares.height else shares
    leaves = leaves if leaves.height else shares
    above = ends.filter(~pl.col("to_host")).group_by("device").agg(pl.col("peer").unique())
    peers: dict[str, list[str]] = dict(above.iter_rows())
    levels = dict.fromkeys(leaves["device"].sort(), 1)
    waiting = deque(levels)
    while waiting:
        switch = waiting.popleft()
        for peer in peers.get(switch, ()):
            if peer not in levels:
                levels[peer] = levels[switch] + 1
                waiting.append(peer)
    return levels


def tiered(links: pl.DataFrame) -> pl.DataFrame:
    """Links (a, a_port, b, b_port, ...) with a turned to the end nearer the hosts, and tier. A tier between switches
    that no leaf is joined to stays null.
    """
    levels = switch_levels(links)
    table = pl.DataFrame(
        {"device": list(levels), "level": list(levels.values())}, schema={"device": pl.String, "level": pl.Int64}
    )
    ranked = links.join(table.rename({"level": "a_level"}), left_on="a", right_on="device", how="left").join(
        table.rename({"level": "b_level"}), left_on="b", right_on="device", how="left"
    )
    for end in ("a", "b"):
        hca = pl.col(end).str.contains("/", literal=True)
        ranked = ranked.with_columns(pl.when(hca).then(0).otherwise(f"{end}_level").alias(f"{end}_level"))
    turned = (pl.col("b_level") < pl.col("a_level")) | (
        pl.col("b_level").eq_missing(pl.col("a_level")) & (pl.col("b") < pl.col("a"))
    )
    swapped = {
        column: pl.when(turned.fill_null(value=False)).then(other).otherwise(column)
        for column, other in (("a", "b"), ("b", "a"), ("a_port", "b_port"), ("b_port", "a_port"))
    }
    lower = pl.min_horizontal("a_level", "b_level")
    tier = lower.clip(0, len(TIERS) - 1).replace_strict(dict(enumerate(TIERS)), return_dtype=pl.String)
    return ranked.with_columns(**swapped, tier=tier).drop("a_level", "b_level")
