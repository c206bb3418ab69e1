"""A recording is a folder: <table>.parquet, nodes.csv, links.csv, recording.toml, and labels.parquet where known.

Anyone can write one, so reading is tolerant: tables, columns and intervals may be missing, columns may be extra, times
may be text or integers. What the rows are worth is for admission to say; here they are only cut into windows.
"""

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # ships no types

from replay.exporters import ARRIVED
from replay.scenario import Scenario
from replay.simulate import LABEL_COLUMNS, Window
from schemas.admission import admit
from schemas.columns import UTC_MICROSECONDS
from schemas.tables import TABLE_BY_NAME, TABLES, Table, empty
from schemas.topology import LINK_COLUMNS, NODE_COLUMNS, Topology, topology_from_frames

DAY_SECONDS = 86_400
GPUS_PER_NODE_MAXIMUM = 64
DELAY_SECONDS_MAXIMUM = 60.0  # what is longer under way is evidence of another kind
# One row of a clock that is decades off must not make a million empty windows.
SPAN_MAXIMUM = timedelta(days=100)
_KEY = "__replayed_at"


class RecordingError(ValueError):
    """A folder that cannot be replayed: one line with the file and what is wrong."""


@dataclass(frozen=True, kw_only=True)
class RecordingMeta:
    """recording.toml. cluster: its topology's name. intervals: seconds between a table's samples, or estimated."""

    name: str
    cluster: str
    starts_at: datetime
    ends_at: datetime
    source: str = ""
    intervals: Mapping[str, float]
    gpus_per_node: int = 8


@dataclass(frozen=True)
class Recording:
    """windows: to be read once, in order; frames as recorded, to be admitted by whoever reads them. delay_seconds:
    None, or they are cut by when rows arrived, and rows of the slowest table were usually under way that long.
    """

    meta: RecordingMeta
    topology: Topology
    windows: Iterator[Window]
    delay_seconds: float | None


def meta_of(scenario: Scenario, topology: Topology) -> RecordingMeta:
    """How a recording of the simulated scenario describes itself."""
    return RecordingMeta(
        name=scenario.name, cluster=topology.name, source=f"simulated, seed {scenario.seed}",
        starts_at=scenario.starts_at, ends_at=scenario.starts_at + timedelta(seconds=scenario.duration_seconds),
        intervals={name: float(seconds) for name, seconds in scenario.intervals.items()},
        gpus_per_node=topology.gpus_per_node,
    )  # fmt: skip


def write_recording(folder: Path, windows: Iterable[Window], topology: Topology, meta: RecordingMeta, labels: pl.DataFrame | None = None) -> dict[str, int]:  # fmt: skip  # noqa: E501
    """Write windows as they come; returns rows by table. Raises RecordingError when the folder holds something."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RecordingError(f"recording {folder}: is there already; choose a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    topology.nodes.write_csv(folder / "nodes.csv")
    topology.links.write_csv(folder / "links.csv")
    (folder / "recording.toml").write_text(_as_toml(meta), "utf-8")
    if labels is not None:
        labels.write_parquet(folder / "labels.parquet")
    rows: dict[str, int] = {}
    writers: dict[str, pq.ParquetWriter] = {}
    try:
        for window in windows:
            for name, frame in window.as_arrived():
                if frame.is_empty():
                    continue
                arrow = frame.to_arrow()
                if name not in writers:
                    writers[name] = pq.ParquetWriter(folder / f"{name}.parquet", arrow.schema, compression="zstd")
                writers[name].write_table(arrow)
                rows[name] = rows.get(name, 0) + frame.height
    finally:
        for writer in writers.values():
            writer.close()
    return rows


def read_recording(folder: Path, *, window_seconds: int = 60) -> Recording:
    """The recording's description, cluster and windows. Raises RecordingError; never opens labels.parquet.

    With an arrived_at column in a table its rows come in order of arrival, in the window in which they arrived.
    """
    if not folder.is_dir():
        raise RecordingError(f"recording {folder}: there is no such folder")
    frames = {table.name: _keyed(folder, table) for table in TABLES if _there(folder, f"{table.name}.parquet")}
    if not frames:
        raise RecordingError(f"recording {folder}: holds no table, such as gpu.parquet or power.parquet")
    meta = _meta(folder, frames)
    nodes, links = _csv(folder, "nodes.csv", NODE_COLUMNS), _csv(folder, "links.csv", LINK_COLUMNS)
    try:
        topology = topology_from_frames(meta.cluster, nodes, links, gpus_per_node=meta.gpus_per_node)
    except (ValueError, pl.exceptions.PolarsError) as error:
        raise RecordingError(f"recording {folder}: {_line(error)}") from error
    delays = [_delay_seconds(folder, TABLE_BY_NAME[name]) for name in frames if _arrives(folder, name)]
    slowest = max(min(DELAY_SECONDS_MAXIMUM, max(delays)), 0.0) if delays else None
    return Recording(meta, topology, _windows(meta, frames, window_seconds), slowest)


def read_labels(folder: Path) -> pl.DataFrame:
    """The truth of a recording, for scoring alone; no rows when it is not known. Raises RecordingError."""
    path = folder / "labels.parquet"
    if not _there(folder, path.name):
        return pl.DataFrame(schema=LABEL_COLUMNS)
    frame = _scan(path).collect()
    try:
        return frame.with_columns(ends_at=pl.col("ends_at") if "ends_at" in frame.columns else None).select(
            pl.col(name).cast(dtype) for name, dtype in LABEL_COLUMNS.items()
        )
    except pl.exceptions.PolarsError as error:
        raise RecordingError(f"recording {folder}: labels.parquet: {_line(error)}") from error


def _scan(path: Path) -> pl.LazyFrame:
    try:
        frame = pl.scan_parquet(path)
        frame.collect_schema()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise RecordingError(f"recording {path.parent}: {path.name} is not Parquet: {_line(error)}") from error
    return frame


def _arrives(folder: Path, name: str) -> bool:
    return ARRIVED in _scan(folder / f"{name}.parquet").collect_schema()


def _delay_seconds(folder: Path, table: Table) -> float:
    """From the median row's time to its arrival; the delay of one slow source does not show in it."""
    frame = _scan(folder / f"{table.name}.parquet").select(table.time, ARRIVED).collect()
    under_way = (_instants(frame, ARRIVED) - _instants(frame, table.time)).dt.total_microseconds().median()
    return float(under_way) / 1e6 if isinstance(under_way, int | float) else 0.0


def _keyed(folder: Path, table: Table) -> pl.LazyFrame:
    """The table with the time it is replayed at, in that order. Null there: the first window takes the row.

    Typed times stay lazy, so that a window reads only its own row groups; others are read once and sorted.
    """
    frame = _scan(folder / f"{table.name}.parquet")
    columns = frame.collect_schema()
    if table.time not in columns:
        raise RecordingError(f"recording {folder}: {table.name}.parquet has no column {table.time!r}")
    if ARRIVED in columns:
        read = frame.collect()
        return (
            read.with_columns(_instants(read, ARRIVED).alias(_KEY)).drop(ARRIVED).sort(_KEY, maintain_order=True).lazy()
        )
    if columns[table.time] == UTC_MICROSECONDS:
        return frame.with_columns(pl.col(table.time).alias(_KEY))
    read = frame.collect()
    return read.with_columns(_instants(read, table.time).alias(_KEY)).sort(_KEY, maintain_order=True).lazy()


def _instants(frame: pl.DataFrame, column: str) -> pl.Series:
    """Times of any accepted form, as admission will read them; null where it will refuse."""
    power = TABLE_BY_NAME["power"]
    whole = pl.DataFrame({"time": frame[column]}).with_row_index("row")
    rows = admit(power, whole.select("time", pdu=pl.col("row").cast(pl.String))).rows
    found = rows.select("time", row=pl.col("pdu").cast(pl.UInt32))
    return whole.select("row").join(found, on="row", how="left", maintain_order="left")["time"]


def _windows(meta: RecordingMeta, frames: Mapping[str, pl.LazyFrame], window_seconds: int) -> Iterator[Window]:
    """From starts_at to the end; rows from before it are in the first window, rows from after it in the last."""
    starts_at = meta.starts_at
    first = True
    while starts_at < meta.ends_at:
        ends_at = min(starts_at + timedelta(seconds=window_seconds), meta.ends_at)
        last = ends_at == meta.ends_at
        inside = pl.lit(value=True) if first else pl.col(_KEY) >= starts_at
        inside &= pl.lit(value=True) if last else pl.col(_KEY) < ends_at
        if first:
            inside |= pl.col(_KEY).is_null()
        tables = {table.name: empty(table) for table in TABLES}
        for name, frame in frames.items():
            try:
                tables[name] = frame.filter(inside).sort(_KEY, maintain_order=True).drop(_KEY).collect()
            except (pl.exceptions.PolarsError, OSError) as error:
                raise RecordingError(f"recording {meta.name}: {name}.parquet cannot be read: {_line(error)}") from error
        yield Window(starts_at, ends_at, tables)
        starts_at, first = ends_at, False


def _meta(folder: Path, frames: Mapping[str, pl.LazyFrame]) -> RecordingMeta:
    path = folder / "recording.toml"
    tree: dict[str, Any] = {}
    if _there(folder, path.name):
        try:
            tree = tomllib.loads(path.read_text("utf-8"))
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise RecordingError(f"recording {folder}: recording.toml is not TOML: {error}") from error
    bounds = [_bounds(folder, name, frame) for name, frame in frames.items()]
    seen = [(low, high) for low, high in bounds if low is not None and high is not None]
    if not seen and not {"starts_at", "ends_at"} <= set(tree):
        raise RecordingError(f"recording {folder}: no row has a time, and recording.toml does not say when it was")
    starts_at = _given(folder, tree, "starts_at") or min(low for low, _ in seen)
    ends_at = _given(folder, tree, "ends_at") or max(high for _, high in seen) + timedelta(seconds=1)
    if ends_at - starts_at > SPAN_MAXIMUM:
        raise RecordingError(
            f"recording {folder}: rows span {(ends_at - starts_at).days} days; "
            "say starts_at and ends_at in recording.toml"
        )
    if ends_at <= starts_at:
        raise RecordingError(f"recording {folder}: ends_at {ends_at} is not after starts_at {starts_at}")
    given = tree.get("intervals", {})
    if not isinstance(given, dict) or not all(_is_interval(value) for value in given.values()):
        raise RecordingError(f"recording {folder}: recording.toml: intervals must be seconds by table, up to a day")
    gpus_per_node = tree.get("gpus_per_node", 8)
    if not isinstance(gpus_per_node, int) or not 1 <= gpus_per_node <= GPUS_PER_NODE_MAXIMUM:
        raise RecordingError(f"recording {folder}: recording.toml: gpus_per_node must be from 1 to 64")
    name = str(tree.get("name", folder.name))
    return RecordingMeta(
        name=name, cluster=str(tree.get("cluster", name)), source=str(tree.get("source", "")),
        starts_at=starts_at, ends_at=ends_at, gpus_per_node=gpus_per_node,
        intervals={**_estimated_intervals(frames, set(given)), **given},
    )  # fmt: skip


def _bounds(folder: Path, name: str, frame: pl.LazyFrame) -> tuple[datetime | None, datetime | None]:
    try:
        low, high = frame.select(low=pl.col(_KEY).min(), high=pl.col(_KEY).max()).collect().row(0)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise RecordingError(f"recording {folder}: {name}.parquet cannot be read: {_line(error)}") from error
    return low, high


def _is_interval(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= DAY_SECONDS


def _estimated_intervals(frames: Mapping[str, pl.LazyFrame], given: set[str]) -> dict[str, float]:
    """For tables of samples that have no interval: the median gap between the rows of one entity, as they arrived.

    Per entity and not per source, because a node's GPUs need not arrive at one instant.
    """
    found = {}
    for name, frame in frames.items():
        table = TABLE_BY_NAME[name]
        if table.interval_seconds is None or name in given or table.source not in frame.collect_schema():
            continue
        entity = [column for column in table.key if column in frame.collect_schema()]
        gap = (
            frame.select(*entity, _KEY).unique().sort(*entity, _KEY)
            .select(pl.col(_KEY).diff().over(entity).dt.total_microseconds().median())
            .collect().item()
        )  # fmt: skip
        if gap:
            found[name] = round(gap / 1e6, 3)
    return found


def _given(folder: Path, tree: Mapping[str, Any], key: str) -> datetime | None:
    value = tree.get(key)
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError as error:
            raise RecordingError(f"recording {folder}: recording.toml: {key} {value!r} is not a time") from error
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise RecordingError(f"recording {folder}: recording.toml: {key} must be a date and time")
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _csv(folder: Path, name: str, columns: pl.Schema) -> pl.DataFrame:
    path = folder / name
    if not _there(folder, name):
        return pl.DataFrame(schema=columns)
    try:
        return pl.read_csv(path, infer_schema=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise RecordingError(f"recording {folder}: {name}: {_line(error)}") from error


def _there(folder: Path, name: str) -> bool:
    """Whether the recording has this file. What has its name and is no file, or leads nowhere, is not left out."""
    path = folder / name
    try:
        found = path.is_file()
        if found or not (path.exists() or path.is_symlink()):
            return found
    except OSError as error:
        raise RecordingError(f"recording {folder}: {name}: {error.strerror or error}") from error
    raise RecordingError(f"recording {folder}: {name} is no file; put the file in its place, or take it away")


def _as_toml(meta: RecordingMeta) -> str:
    """JSON strings are TOML strings."""
    lines = [f"{key} = {json.dumps(getattr(meta, key))}" for key in ("name", "cluster", "source")]
    lines += [f"{key} = {getattr(meta, key).astimezone(UTC).isoformat()}" for key in ("starts_at", "ends_at")]
    lines += [f"gpus_per_node = {meta.gpus_per_node}", "", "[intervals]"]
    return "\n".join([*lines, *(f"{table} = {seconds}" for table, seconds in meta.intervals.items())]) + "\n"


def _line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
