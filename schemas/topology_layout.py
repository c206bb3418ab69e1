"""How long a cable is: from where racks stand on the floor to whole metres, as cables are ordered.

A superblock is one row of racks with its leaf switches in a rack in the middle, a pod is superblocks row behind row
with its spines in the middle, the hall is a square of pods with the cores in the middle. Cables run along the axes.
"""

from math import ceil, isqrt

import polars as pl

from schemas.topology_parameters import FabricParameters

RACK_PITCH_METERS = 0.6
ROW_PITCH_METERS = 3.0  # rack depth 1.2 and an aisle
POD_GAP_METERS = 3.0
RISE_METERS = 4.0  # up to the tray and down again at both ends, with slack


def node_to_leaf_meters(p: FabricParameters) -> pl.Expr:
    """Needs in_sb: the node's place in its superblock. A leaf of a single rack stands in that rack."""
    if p.nodes_below_leaf <= p.nodes_per_rack:
        return pl.lit(ceil(RISE_METERS / 2), pl.Float64)
    rack = pl.col("in_sb") // p.nodes_per_rack
    return _ordered((rack - _racks(p) // 2).abs() * RACK_PITCH_METERS)


def leaf_to_spine_meters(p: FabricParameters) -> pl.Expr:
    """Needs leaf. Leaves of a row are in the middle of it, those of a rack where the rack is."""
    row = pl.col("leaf") // p.leaves_per_superblock % p.superblocks_per_pod
    rows = (row - (p.superblocks_per_pod - 1) / 2).abs() * ROW_PITCH_METERS
    if p.nodes_below_leaf > p.nodes_per_rack:
        return _ordered(rows)
    rack = pl.col("leaf") % p.leaves_per_superblock * _racks(p) // p.leaves_per_superblock
    return _ordered(rows + (rack - _racks(p) // 2).abs() * RACK_PITCH_METERS)


def spine_to_core_meters(p: FabricParameters) -> pl.Expr:
    """Needs pod."""
    columns = max(1, isqrt(p.pods))
    lines = ceil(p.pods / columns)
    across = (pl.col("pod") % columns - (columns - 1) / 2).abs() * (
        (_racks(p) + 1) * RACK_PITCH_METERS + POD_GAP_METERS
    )
    along = (pl.col("pod") // columns - (lines - 1) / 2).abs() * (
        p.superblocks_per_pod * ROW_PITCH_METERS + POD_GAP_METERS
    )
    return _ordered(across + along)


def _racks(p: FabricParameters) -> int:
    return ceil(p.nodes_per_superblock / p.nodes_per_rack)


def _ordered(run_meters: pl.Expr) -> pl.Expr:
    return (run_meters + RISE_METERS).ceil().cast(pl.Float64)
