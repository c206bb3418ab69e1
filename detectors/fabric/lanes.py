"""Lanes of transceivers and the links they belong to."""

import polars as pl

from detectors.stats.sorted_state import located
from schemas.topology import Topology

# Entity of a lane: device:port/lane.
LANE = pl.format("{}:{}/{}", "device", "port", "lane").alias("entity")


def ordered_lanes(rows: pl.DataFrame) -> pl.DataFrame:
    """Optic rows by entity (of the lane) and time. For `Context.once`: every detector of light needs them so."""
    return rows.with_columns(LANE).sort("entity", "time", maintain_order=True)


def with_port(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows whose entity is device:port or device:port/lane, with device and port."""
    parts = pl.col("entity").str.extract_groups(r"^(?<device>.*):(?<port>\d+)(?:/\d+)?$")
    return rows.with_columns(device=parts.struct.field("device"), port=parts.struct.field("port").cast(pl.Int64()))


def with_link(rows: pl.DataFrame, topology: Topology) -> pl.DataFrame:
    """Rows with device and port, and their cable as whole (device:port where no cable is known), peer, peer_port."""
    ports = topology.ports_by_name
    names = rows.select(pl.format("{}:{}", "device", "port")).to_series()
    at, there = located(ports["name"], names.fill_null(""))
    found = ports.select("peer", "peer_port", "cable").gather(pl.Series(at).set(pl.Series(~there), None))
    return rows.hstack(found.select("peer", "peer_port", whole=pl.col("cable").fill_null(names)))


def beside_far_end(
    rows: pl.DataFrame, lanes: pl.DataFrame, columns: tuple[str, ...], tolerance_seconds: float
) -> pl.DataFrame:
    """Rows (time, peer, peer_port, lane, ...) and what the same lane at the far end last said, as far_<column>.

    lanes: time, device, port, lane and the columns. What is older than the tolerance is null: unknown.
    """
    asked = rows.select("lane", device="peer", port="peer_port").drop_nulls().unique()
    there = lanes.filter(pl.col("device").is_in(asked["device"].unique().implode()))
    few = there.join(asked, on=["device", "port", "lane"], how="semi").sort("time")
    far = few.select(
        "time", "lane", peer="device", peer_port="port", **{f"far_{column}": pl.col(column) for column in columns}
    )
    return rows.sort("time", maintain_order=True).join_asof(
        far, on="time", by=["peer", "peer_port", "lane"], tolerance=f"{round(tolerance_seconds * 1000)}ms",
        check_sortedness=False,
    )  # fmt: skip


def beside_peers(rows: pl.DataFrame, lanes: pl.DataFrame) -> pl.DataFrame:
    """Rows (time, device, port, lane) and the median light received by the port's other lanes at that time."""
    others = rows.select("time", "device", "port", "lane").join(
        lanes.select("time", "device", "port", "receive_power_dbm", peer_lane="lane"), on=["time", "device", "port"]
    )
    medians = others.filter(pl.col("peer_lane") != pl.col("lane")).group_by("time", "device", "port", "lane").agg(
        peers_receive_power_dbm=pl.col("receive_power_dbm").median()
    )  # fmt: skip
    return rows.join(medians, on=["time", "device", "port", "lane"], how="left", maintain_order="left")
