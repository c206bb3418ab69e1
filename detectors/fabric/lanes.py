"""Lanes of transceivers and the links they belong to."""

import polars as pl

from detectors.stats.grades import GRADE_COLUMNS, fold
from detectors.stats.sorted_state import located, rows_of
from schemas.topology import Topology

# Entity of a lane: device:port/lane.
LANE = pl.format("{}:{}/{}", "device", "port", "lane").alias("entity")
FAR_LANE = pl.format("{}:{}/{}", "peer", "peer_port", "lane")


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
    if rows.is_empty():
        return rows.hstack(ports.select("peer", "peer_port", whole="cable").clear())
    names = rows.select(pl.format("{}:{}", "device", "port")).to_series()
    at, there = located(ports["name"], names.fill_null(""))
    found = ports.select("peer", "peer_port", "cable").gather(pl.Series(at).set(pl.Series(~there), None))
    return rows.hstack(found.select("peer", "peer_port", whole=pl.col("cable").fill_null(names)))


def of_links(changes: pl.DataFrame, before: pl.DataFrame, topology: Topology) -> pl.DataFrame:
    """Changes of lanes or ports (what graded_levels says) as changes of the links that they belong to.

    before: entity and GRADE_COLUMNS of the lanes or ports as they were before the batch.
    """
    were_bad = with_link(with_port(before.filter("ticket_active").select(GRADE_COLUMNS.names())), topology)
    return fold(with_link(changes.drop("whole", "peer", "peer_port", strict=False), topology), were_bad)


def beside_far_end(
    rows: pl.DataFrame, before: pl.DataFrame, told: pl.DataFrame, columns: tuple[str, ...], tolerance_seconds: float
) -> pl.DataFrame:
    """Rows (time, peer, peer_port, lane, ...) and what the same lane at the far end last said, as far_<column>.

    before: the ordered state, told: rows of the batch; both with entity, time and the columns. What is older than the
    tolerance is null: unknown.
    """
    named = {column: f"far_{column}" for column in columns}
    if rows.is_empty():
        return rows.hstack(before.select(columns).clear().rename(named))
    asked = rows.sort("time", maintain_order=True).with_columns(_far=FAR_LANE)
    far = words_of(asked["_far"], before, told, columns).rename({"entity": "_far"})
    return asked.join_asof(
        far.rename(named), on="time", by="_far",
        tolerance=f"{round(tolerance_seconds * 1000)}ms", check_sortedness=False,
    ).drop("_far")  # fmt: skip


def words_of(entities: pl.Series, before: pl.DataFrame, told: pl.DataFrame, columns: tuple[str, ...]) -> pl.DataFrame:
    """What these entities said, in the ordered state and in the batch, in order of time: entity, time, the columns."""
    asked, said = entities.drop_nulls().unique().sort(), ("entity", "time", *columns)
    few = told.filter(pl.col("entity").is_in(asked.implode()))
    both = pl.concat([rows_of(before, asked).select(said), few.select(said)])
    return both.filter(pl.col("time").is_not_null()).sort("time")


def beside_peers(rows: pl.DataFrame, lanes: pl.DataFrame) -> pl.DataFrame:
    """Rows (time, device, port, lane) and the median light received by the port's other lanes at that time."""
    others = rows.select("time", "device", "port", "lane").join(
        lanes.select("time", "device", "port", "receive_power_dbm", peer_lane="lane"), on=["time", "device", "port"]
    )
    medians = others.filter(pl.col("peer_lane") != pl.col("lane")).group_by("time", "device", "port", "lane").agg(
        peers_receive_power_dbm=pl.col("receive_power_dbm").median()
    )  # fmt: skip
    return rows.join(medians, on=["time", "device", "port", "lane"], how="left", maintain_order="left")
