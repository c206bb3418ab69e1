"""Who fell silent together: whether the silence of a node is its own, its domain's, or the collector's.

Nodes fail alone, or with the rack, loop or power domain they are in. A collector that stops takes whoever sends through
it, wherever they stand. So a silence that no failure domain explains is the telemetry's, and says nothing of the nodes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from detectors.contract import Context
from detectors.heard import heard, rows_of
from detectors.silence import silences
from schemas.topology import Topology

Instants = npt.NDArray[np.int64]
NEVER = np.iinfo(np.int64).max
MANY_NODES = 4
"""Fewer that fall silent at once are lost nodes, whoever goes on."""
MANY_SHARE = 0.05
FEW_SHARE = 0.1
SCATTERED_SHARE = 0.25


@dataclass(frozen=True, kw_only=True)
class Scope:
    """interval, loop_interval: of heartbeats and of coolant_loop. hosts: nodes that send tables beside heartbeats."""

    topology: Topology
    interval: timedelta
    loop_interval: timedelta
    hosts: frozenset[str]


class Together:
    """Silences of nodes and loops, to be asked whose a silence is. Times are microseconds.

    gaps: entity, time (last beat), until, longer than one beat and a quarter, without planned ones. known: entity,
    since (null: before this batch). loops: entity, time, until, longer than two samples.
    """

    def __init__(self, gaps: pl.DataFrame, known: pl.DataFrame, loops: pl.DataFrame, scope: Scope) -> None:
        self.scope = scope
        self.margin = _span(1.25 * scope.interval)
        self.loop_margin = self.margin + _span(2 * scope.loop_interval)
        fed_once = pl.when(pl.col("pdu_b").is_null()).then("pdu")  # a second feed keeps a node out of its domain's fate
        domains: Mapping[Any, Any] = dict(scope.topology.nodes.select("node", fed_once).iter_rows())
        self.cdus: Mapping[Any, Any] = dict(scope.topology.nodes.select("node", "cdu").iter_rows())
        numbers = {name: number for number, name in enumerate(dict.fromkeys(domains.values()))}
        self._domain = {node: numbers[domain] for node, domain in domains.items()}
        self._domains = len(numbers) + 1
        self.lasts, self.ends = _instants(gaps)
        self.places = self._places(gaps["entity"])
        self.since = np.sort(known["since"].dt.epoch("us").fill_null(0).to_numpy())
        self.homes = self._places(known["entity"])
        self.loops: dict[str, list[tuple[int, int]]] = {}
        for cdu, last, end in zip(loops["entity"], *_instants(loops), strict=True):
            self.loops.setdefault(cdu, []).append((int(last), int(end)))

    def common(self, node: str, last: datetime, at: datetime) -> bool:
        """Whether the node fell silent at `last` with so many others that no failure domain explains it, as of `at`.

        That is: hardly anybody goes on; or the node's coolant unit, which has its own power, fell silent with it; or
        many nodes fell, of several power domains half of which goes on, and their other tables are known to come.
        """
        began, now = _instant(last), _instant(at)
        silent = (self.lasts + self.margin < now) & (self.ends > now)
        fallen = silent & (np.abs(self.lasts - began) <= self.margin)
        many = int(fallen.sum())
        if many < MANY_NODES:
            return False
        known = int(np.searchsorted(self.since, now, side="right"))
        if known - int(silent.sum()) <= max(1, FEW_SHARE * known) or self._loop_fell(node, began, now):
            return True
        return node in self.scope.hosts and many >= MANY_SHARE * known and self.scattered(fallen, silent)

    def scattered(self, fallen: npt.NDArray[np.bool_], silent: npt.NDArray[np.bool_]) -> bool:
        """Whether many of the fallen stand in power domains of which half the nodes or more go on."""
        homes = np.bincount(self.homes, minlength=self._domains)
        goes_on = 2 * np.bincount(self.places[silent], minlength=self._domains) <= homes
        places = self.places[fallen]
        return len(np.unique(places)) > 1 and bool(goes_on[places].mean() > SCATTERED_SHARE)

    def _loop_fell(self, node: str, began: int, now: int) -> bool:
        return any(
            abs(last - began) <= self.loop_margin and last < now < end
            for last, end in self.loops.get(self.cdus.get(node) or "", ())
        )

    def _places(self, nodes: pl.Series) -> Instants:
        return np.array([self._domain.get(node, self._domains - 1) for node in nodes], dtype=np.int64)


def silent_loops(
    rows: pl.DataFrame, before: pl.DataFrame, context: Context, *, by: str
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Silences of coolant loops longer than two samples, and the last sample of each loop: see `silences`."""
    return silences(
        heard(context, rows, ("cdu",)).rename({"id": by}), before, by=by, now=context.now,
        limit=timedelta(seconds=2 * context.intervals_seconds["coolant_loop"]),
        rows_of=lambda loops: rows_of(rows, ("cdu",), loops).rename({"id": by}),
    )  # fmt: skip


def _instants(gaps: pl.DataFrame) -> tuple[Instants, Instants]:
    times = gaps.select(pl.col("time").dt.epoch("us"), pl.col("until").dt.epoch("us").fill_null(NEVER))
    return times["time"].to_numpy(), times["until"].to_numpy()


def _instant(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)


def _span(length: timedelta) -> int:
    return length // timedelta(microseconds=1)
