"""Who fell silent together: whether the silence of a node is its own, its domain's, or the collector's.

Nodes fail alone, or with the rack, loop or power domain they are in. A collector that stops takes whoever sends through
it, wherever they stand. So a silence that no failure domain explains is the telemetry's, and says nothing of the nodes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

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
        self.scope, self.gaps, self.known = scope, gaps, known
        self.margin = _span(1.25 * scope.interval)
        self.loop_margin = self.margin + _span(2 * scope.loop_interval)
        self.lasts, self.ends = _instants(gaps)
        self.loops: dict[str, list[tuple[int, int]]] = {}
        for cdu, last, end in zip(loops["entity"], *_instants(loops), strict=True):
            self.loops.setdefault(cdu, []).append((int(last), int(end)))

    @cached_property
    def since(self) -> Instants:
        return np.sort(self.known["since"].dt.epoch("us").fill_null(0).to_numpy())

    @cached_property
    def domains(self) -> Mapping[str, int]:
        """The number of each node's power domain. A second feed keeps a node out of its domain's fate."""
        rows = self.scope.topology.node_rows
        fed_by = {node: row["pdu"] if row["pdu_b"] is None else None for node, row in rows.items()}
        numbers = {name: number for number, name in enumerate(dict.fromkeys(fed_by.values()))}
        return {node: numbers[domain] for node, domain in fed_by.items()}

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
        count = len(self.domains) + 1
        homes = np.bincount(self.homes, minlength=count)
        goes_on = 2 * np.bincount(self.places[silent], minlength=count) <= homes
        places = self.places[fallen]
        return len(np.unique(places)) > 1 and bool(goes_on[places].mean() > SCATTERED_SHARE)

    def _loop_fell(self, node: str, began: int, now: int) -> bool:
        cdu = self.scope.topology.node_rows.get(node, {}).get("cdu")
        return any(
            abs(last - began) <= self.loop_margin and last < now < end for last, end in self.loops.get(cdu or "", ())
        )

    @cached_property
    def places(self) -> Instants:
        return self._domains_of(self.gaps["entity"])

    @cached_property
    def homes(self) -> Instants:
        return self._domains_of(self.known["entity"])

    def _domains_of(self, nodes: pl.Series) -> Instants:
        """The number of the power domain of each; one more than all for those that no topology knows."""
        return np.array([self.domains.get(node, len(self.domains)) for node in nodes], dtype=np.int64)


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
    until = gaps["until"].to_physical().fill_null(NEVER)
    return gaps["time"].to_physical().to_numpy(), until.to_numpy()


def _instant(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)


def _span(length: timedelta) -> int:
    return length // timedelta(microseconds=1)
