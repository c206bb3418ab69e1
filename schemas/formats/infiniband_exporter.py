"""Two infiniband_exporter's Prometheus text to fabric_port: one wide row per port from one line per port and counter.

treydock's names (infiniband_switch_port_*, infiniband_hca_port_*) come from perfquery -x: data is in bytes already and
error counters have 64 bits. guilbaults' names (infiniband_<counter>_total) come from ibqueryerrors: data is in words of
4 bytes, and the width of its error counters is not told; it can also clear counters by itself. Where an info metric or
a label describes the device, it gets the topology's name; else it is the GUID. What an exporter failed to collect
(collect_errors, collect_timeouts, bad_status_error, scrape_ok 0) is a reject each: such ports are absent, not healthy.
"""

import re

import polars as pl

from schemas.formats import payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable, rejects_frame
from schemas.formats.fabric_identity import device_of
from schemas.formats.fabric_readings import IBA_COUNTERS, LANE_GIGABITS
from schemas.formats.prometheus_text import label, samples_of, time_of
from schemas.tables import TABLE_BY_NAME

NAME = "infiniband_exporter text"
VERSIONS = "treydock 0.x, guilbaults 0.x"
LEAVES = (
    "unicast and multicast packets, QP1Dropped, mapping and looping errors, ibswinfo metrics, the far end of a link"
)

TABLE = TABLE_BY_NAME["fabric_port"]
KEY = ("time", "device", "port")
LOOKS = re.compile(
    r"^(# (HELP|TYPE) )?infini(ni)?band_(switch|hca|exporter|\w+_total|speed|width|scrape)\w*[ {]", re.MULTILINE
)

_TREYDOCK = {
    "port_transmit_data_bytes_total": "transmit_bytes_total",
    "port_receive_data_bytes_total": "receive_bytes_total",
    "port_transmit_packets_total": "transmit_packets_total",
    "port_receive_packets_total": "receive_packets_total",
    "port_symbol_error_total": "symbol_error_total",
    "port_link_error_recovery_total": "link_error_recovery_total",
    "port_link_downed_total": "link_downed_total",
    "port_receive_errors_total": "receive_error_total",
    "port_receive_remote_physical_errors_total": "receive_remote_physical_error_total",
    "port_receive_switch_relay_errors_total": "receive_switch_relay_error_total",
    "port_receive_constraint_errors_total": "receive_constraint_error_total",
    "port_transmit_discards_total": "transmit_discard_total",
    "port_transmit_constraint_errors_total": "transmit_constraint_error_total",
    "port_transmit_wait_total": "transmit_wait_total",
    "port_local_link_integrity_errors_total": "local_link_integrity_error_total",
    "port_excessive_buffer_overrun_errors_total": "excessive_buffer_overrun_total",
    "port_vl15_dropped_total": "vl15_dropped_total",
    "port_local_physical_errors_total": "receive_local_physical_error_total",
    "port_malformed_packet_errors_total": "receive_malformed_total",
    "port_buffer_overrun_errors_total": "receive_buffer_overrun_total",
}
_COUNTERS: dict[str, tuple[str, float, str | None]] = {
    **{f"infiniband_{kind}_{name}": (column, 1.0, "extended") for kind in ("switch", "hca")
       for name, column in _TREYDOCK.items()},
    "infiniband_switch_port_rate_bytes_per_second": ("rate_gigabits_per_second", 8e-9, None),
    "infiniband_hca_rate_bytes_per_second": ("rate_gigabits_per_second", 8e-9, None),
    **{f"infiniband_{name.lower()}_total": (column, float(factor), None)
       for name, (column, factor) in IBA_COUNTERS.items()},
    "infiniband_width": ("width_lanes", 1.0, None),
    "infiniband_speed": ("lane_gigabits", 1.0, None),
}  # fmt: skip


def _limits() -> pl.DataFrame:
    """Metric -> column, factor to the table's unit, range and width of its error counters."""
    columns = TABLE.schema.columns()
    rows = []
    for metric, (column, factor, width) in _COUNTERS.items():
        known = columns.get(column)
        top = getattr(known, "max", None) or (2.0**63 - 1024 if known is not None else 1000.0)
        rows.append((metric, column, factor, float(top), width))
    return pl.DataFrame(
        rows, orient="row",
        schema={"metric": pl.String, "column": pl.String, "factor": pl.Float64, "top": pl.Float64, "width": pl.String},
    )  # fmt: skip


def looks_like(head: bytes, name: str) -> bool:  # noqa: ARG001  every format answers to the same question
    return LOOKS.search(payload.head_text(head)) is not None


def decode(data: bytes, surroundings: Surroundings) -> Decoded:
    """Rows of fabric_port, one per device, port and time (the line's own, or received_at). Rejects: lines that are no
    sample, what the exporter could not collect, and per column blanks, readings out of range and repetitions, counted.
    Raises Unreadable when no line is of these exporters.
    """
    every = samples_of(payload.text(data, surroundings, NAME))
    ours = every.filter(pl.col("metric").str.contains(r"^infini(?:ni)?band_"))
    if ours.is_empty():
        raise Unreadable(f"{NAME}: no infiniband sample in {every.height} line(s)")
    names = _names(ours)
    samples = ours.filter(pl.col("rule").is_null()).join(_limits(), on="metric", how="inner", maintain_order="left")
    samples = samples.with_columns(
        time_of(pl.lit(surroundings.received_at)).alias("time"),
        label("guid", "local_guid").alias("guid"),
        label("port", "local_port").cast(pl.Int64, strict=False).alias("port"),
        (pl.col("number") * pl.col("factor")).alias("scaled"),
    )
    samples = samples.with_columns(
        pl.col("guid").replace_strict(names, default=None, return_dtype=pl.String).alias("device")
    )
    rate = pl.col("metric") == "infiniband_hca_rate_bytes_per_second"
    placed = samples.filter(pl.col("device").is_not_null() & pl.col("port").is_between(0, 4096))
    lost = samples.filter(
        pl.col("device").is_null() | (~pl.col("port").is_between(0, 4096).fill_null(value=False) & ~rate)
    )
    rows, refused = _wide(placed, samples.filter(rate & pl.col("port").is_null()))
    rejects = _unread(every, ours, lost)
    return Decoded(
        tables={"fabric_port": rows} if rows.height else {},
        rejects=rejects_frame(rejects + refused, "fabric_port"),
        missing=tuple(name for name in TABLE.columns if name not in rows.columns),
    )


def _names(ours: pl.DataFrame) -> dict[str, str]:
    """GUID as written -> device. Info metrics and guilbaults' labels describe; a far end describes itself elsewhere."""
    told = ours.select(
        label("guid", "local_guid").alias("guid"),
        label("switch", "hca", "local_name").alias("description"),
        (pl.col("metric").str.starts_with("infiniband_switch_") | (label("component") == "switch")).alias("switch"),
    ).filter(pl.col("guid").is_not_null())  # fmt: skip
    told = told.group_by("guid", maintain_order=True).agg(
        pl.col("description").drop_nulls().first(), pl.col("switch").fill_null(value=False).any()
    )
    return {guid: device_of(text or "", guid, switch=switch) for guid, text, switch in told.iter_rows()}


def _wide(placed: pl.DataFrame, rates: pl.DataFrame) -> tuple[pl.DataFrame, list[Reject]]:
    """Ports by column, and what is no reading. An HCA's rate names no port: it is that of each port of the HCA."""
    ports = placed.select(KEY).unique(maintain_order=True)
    rates = rates.drop("port").join(ports, on=("time", "device"), how="inner").select(placed.columns)
    told = pl.concat([placed, rates])
    kind = (
        pl.when(~pl.col("scaled").is_finite() | pl.col("scaled").is_null()).then(pl.lit("blank"))
        .when(~pl.col("scaled").is_between(0, pl.col("top"))).then(pl.lit("range"))
        .when(~pl.struct(*KEY, "column").is_first_distinct()).then(pl.lit("repeated"))
    )  # fmt: skip
    judged = told.with_columns(kind.alias("kind"))
    bad = judged.filter(pl.col("kind").is_not_null()).group_by("column", "kind", maintain_order=True).agg(
        pl.len(), pl.col("line").first(), pl.col("text").first()
    )  # fmt: skip
    rejects = [
        Reject(rule=f"{column}|{kind}", reason=f"{column}: {kind} in {count} sample(s), first on line {line}",
               place=line, raw=text.encode())
        for column, kind, count, line, text in bad.iter_rows()
    ]  # fmt: skip
    good = judged.filter(pl.col("kind").is_null())
    frame = ports.join(good.group_by(KEY).agg(pl.col("width").drop_nulls().first().alias("counter_width")), on=KEY,
                       how="left", maintain_order="left")  # fmt: skip
    for column in told["column"].unique(maintain_order=True):
        values = good.filter(pl.col("column") == column).select(*KEY, pl.col("scaled").alias(column))
        frame = frame.join(values, on=KEY, how="left", maintain_order="left")
    whole = [name for name in frame.columns if TABLE.columns.get(name) == pl.Int64 and name != "port"]
    frame = frame.with_columns(pl.col(whole).round().cast(pl.Int64, strict=False))
    if "lane_gigabits" in frame.columns:
        lane = pl.col("lane_gigabits").replace_strict(LANE_GIGABITS, default=None, return_dtype=pl.Float64)
        lanes = pl.col("width_lanes") if "width_lanes" in frame.columns else pl.lit(None, pl.Int64)
        frame = frame.with_columns((lane * lanes).alias("rate_gigabits_per_second")).drop("lane_gigabits")
    return frame, rejects


def _unread(every: pl.DataFrame, ours: pl.DataFrame, lost: pl.DataFrame) -> list[Reject]:
    """Lines that are no sample or name no port, and what the exporter says it could not collect."""
    rejects = [
        Reject(rule=rule, reason=f"line {line}: no Prometheus sample", place=line, raw=text.encode())
        for rule, line, text in every.filter(pl.col("rule").is_not_null()).select("rule", "line", "text").iter_rows()
    ]
    rejects += [
        Reject(rule="port|absent", reason=f"line {line}: names no device and port", place=line, raw=text.encode())
        for line, text in lost.select("line", "text").iter_rows()
    ]
    failed = pl.col("metric").str.contains(r"collect_(?:errors|timeouts)$|_error$") & (pl.col("number") > 0)
    partial = (pl.col("metric") == "infiniband_scrape_ok") & (pl.col("number") == 0)
    for line, text in ours.filter(failed | partial).select("line", "text").iter_rows():
        reason = f"line {line}: the exporter could not collect everything: {text[:200]}"
        rejects.append(Reject(rule="exporter|failed", reason=reason, place=line, raw=text.encode()))
    return rejects
