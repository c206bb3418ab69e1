"""Outside events in the telemetry store, and which of them belong to an incident: those that touch what it touches
within a day before it, and those of any other place within its time or the hour before.

They are told, never judged: that something was deployed twelve minutes before an onset proves nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import filter as fnfilter
from fnmatch import fnmatchcase
from typing import Any, Literal

import polars as pl

from pipelines.bundles.slice import involved_nodes
from pipelines.postmortem.clocks import lag_of_onset
from pipelines.telemetry_store import TelemetryStore, append, transaction
from pipelines.wording import some
from schemas.admission import admit
from schemas.incident import Incident
from schemas.tables import TABLE_BY_NAME
from schemas.topology import DOMAIN_COLUMNS, Topology, topology_from_frames

TABLE = TABLE_BY_NAME["outside_event"]
TOUCHING_BEFORE = timedelta(hours=24)
"""A rollout may take hours to show in what it touches."""
ELSEWHERE_BEFORE = timedelta(hours=1)
Where = Literal["here", "everywhere", "elsewhere"]


@dataclass(frozen=True, kw_only=True)
class OutsideEvent:
    """A row of outside_event, and where it took place as seen from an incident. before: its onset; negative: after."""

    row: dict[str, Any]
    where: Where
    before: timedelta

    @property
    def at(self) -> datetime:
        moment: datetime = self.row["time"]
        return moment

    @property
    def text(self) -> str:
        """In one line: what, until when, where, and how long before the onset."""
        ends, touches = self.row["ends_at"], self.row["touches"] or ()
        until = "" if ends is None else f", until {ends:%Y-%m-%d %H:%M:%S}"
        place = some(touches)
        places = {"here": f"; touches {place}", "everywhere": "", "elsewhere": f"; touches {place}, none of this"}
        minutes = round(self.before.total_seconds() / 60)
        when = f"{minutes} min before the onset" if minutes < 120 else f"{minutes / 60:.0f} h before the onset"
        when = f"; {when}" if self.before >= timedelta(seconds=30) else ""
        return f"{self.row['kind']}: {self.row['title']}{until}{places[self.where]}{when}"


@dataclass(frozen=True)
class Added:
    """new: rows that were not there yet. refused: quarantine rows, with the rule that each broke."""

    new: int
    refused: pl.DataFrame


def add(store: TelemetryStore, rows: pl.DataFrame, now: datetime, *, whole: bool = False) -> Added:
    """Through the door and into the store, as recorded now where they do not say; what is there already is not written
    again. whole: where one is refused none is written. Raises StoreUnavailable.
    """
    admitted = admit(TABLE, rows)
    if whole and admitted.quarantined.height:
        return Added(0, admitted.quarantined)
    same = [name for name in TABLE.columns if name != "recorded_at"]
    times = [admitted.rows["time"].min(), admitted.rows["time"].max()]
    with store.connected() as connection, transaction(connection):
        found = connection.sql("select * from outside_event where time between ? and ?", params=times)
        there: pl.DataFrame = found.pl().cast(TABLE.columns)
        fresh = admitted.rows.unique(same, keep="last", maintain_order=True)
        fresh = fresh.join(there, on=same, how="anti", nulls_equal=True)
        fresh = fresh.with_columns(pl.col("recorded_at").fill_null(pl.lit(now)))
        append(connection, "live.outside_event", fresh)
    return Added(fresh.height, admitted.quarantined)


def stored(store: TelemetryStore, begin: datetime, end: datetime, *, writes: bool = False) -> pl.DataFrame:
    """outside_event rows that have something of begin <= time < end, the last said of each id, in order of time.
    writes: whether this process writes the store too, whose flushes a reader of another mode would keep waiting.
    """
    sql = "select * from outside_event where time < $end and coalesce(ends_at, time) >= $begin"
    with store.connected(read_only=not writes) as connection:
        found: pl.DataFrame = connection.sql(sql, params={"begin": begin, "end": end}).pl()
    return latest(found.cast(TABLE.columns))


def latest(rows: pl.DataFrame) -> pl.DataFrame:
    """Of rows with one id, that which was recorded last."""
    ordered = rows.sort("recorded_at", maintain_order=True, nulls_last=False)
    named = ordered.filter(pl.col("id").is_not_null()).unique(["kind", "id"], keep="last", maintain_order=True)
    return pl.concat([named, ordered.filter(pl.col("id").is_null())]).sort("time", "kind", "title")


def around(
    rows: pl.DataFrame, incident: Incident, topology: Topology, *, onset: datetime, until: datetime
) -> tuple[OutsideEvent, ...]:
    """Those of the rows that belong to the incident, oldest first. onset, until: its begin and its end, or as far as is
    known, by the clock of the others where that of its host is known to be off.
    """
    if rows.is_empty():
        return ()
    names = named(incident, topology)
    found = []
    for row in latest(rows).iter_rows(named=True):
        where = _where(row["touches"], names)
        begin = onset - (ELSEWHERE_BEFORE if where == "elsewhere" else TOUCHING_BEFORE)
        if row["time"] <= until and (row["ends_at"] or row["time"]) >= begin:
            found.append(OutsideEvent(row=row, where=where, before=onset - row["time"]))
    return tuple(found)


def belonging(
    rows: pl.DataFrame, incident: Incident, topology: Topology, until: datetime, lags: Mapping[str, timedelta]
) -> pl.DataFrame:
    """The rows of `around`, as a table. until: as far as is known. lags: how far clocks are behind, by node."""
    found = _around_corrected(rows, incident, topology, until, lags)
    return pl.DataFrame([one.row for one in found], schema=TABLE.columns)


def near(store: TelemetryStore, incident: Incident, until: datetime) -> tuple[OutsideEvent, ...]:
    """The stored ones that belong to the incident. Raises StoreUnavailable."""
    end = incident.ends_at or until
    lags = store.lags(incident.starts_at, end)
    off = abs(lag_of_onset(incident, lags))
    rows = stored(store, incident.starts_at - TOUCHING_BEFORE - off, end + off)
    if rows.is_empty():
        return ()
    cluster = store.cluster(incident.starts_at - ELSEWHERE_BEFORE, end)
    unknown = topology_from_frames("unknown", pl.DataFrame(), pl.DataFrame())
    topology = unknown if cluster is None else cluster.topology
    return _around_corrected(rows, incident, topology, until, lags)


def _around_corrected(
    rows: pl.DataFrame, incident: Incident, topology: Topology, until: datetime, lags: Mapping[str, timedelta]
) -> tuple[OutsideEvent, ...]:
    lag = lag_of_onset(incident, lags)
    end = until if incident.ends_at is None else incident.ends_at + max(lag, timedelta(0))
    return around(rows, incident, topology, onset=incident.starts_at + lag, until=end)


def named(incident: Incident, topology: Topology) -> frozenset[tuple[str, str]]:
    """(kind, id) of what the incident touches: its entities, their hosts, and every domain that holds one of those."""
    found: set[tuple[str, str]] = {(incident.root_kind, root) for root in incident.roots}
    found.update(("gpu", member) for member in incident.members)
    found.update(incident.symptoms)
    for node in involved_nodes(incident, topology):
        row = topology.node_rows.get(node, {})
        found.add(("node", node))
        found.update((kind.removesuffix("_b"), name) for kind in DOMAIN_COLUMNS if (name := row.get(kind)) is not None)
    return frozenset(found)


def spelled_out(rows: pl.DataFrame, known: Iterable[str]) -> pl.DataFrame:
    """Rows that tell nothing but what they say in words, for a bundle without names: no links and ids, and things
    touched by their whole names; of others than the known ones only that they lie elsewhere.
    """
    names = sorted(set(known))

    def whole(touches: list[str] | None) -> list[str] | None:
        if touches is None:
            return None
        found = [(kind, name) for one in touches for kind, _, pattern in (one.rpartition("="),)
                 for name in (fnfilter(names, pattern) or ["elsewhere"])]  # fmt: skip
        return list(dict.fromkeys(f"{kind}={name}" if kind and name != "elsewhere" else name for kind, name in found))

    touched = pl.Series("touches", [whole(one) for one in rows["touches"].to_list()], dtype=pl.List(pl.String))
    return rows.with_columns(touched, link=pl.lit(None, pl.String), id=pl.lit(None, pl.String))


def _where(touches: Iterable[str] | None, names: frozenset[tuple[str, str]]) -> Where:
    if not touches:
        return "everywhere"
    return "here" if any(_matches(one, kind, name) for one in touches for kind, name in names) else "elsewhere"


def _matches(matcher: str, kind: str, name: str) -> bool:
    """Whether n00012, n000*, pdu-003 or pdu=pdu-003 means this entity; a host stands for its GPUs and HCAs."""
    wanted, equals, pattern = matcher.rpartition("=")
    if equals and wanted != kind:
        return False
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}/*")
