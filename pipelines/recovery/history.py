"""What recovery has done lately, indexed by what the guard asks. It grows while a round of decisions is made."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pipelines.recovery.kinds import DISRUPTIVE, RESETS
from pipelines.recovery.settings import RecoverySettings
from schemas.action import ActionRecord, Mode
from schemas.topology import Topology, node_of


@dataclass
class History:
    """Actions that had an effect or may have had one (done, pending, failed), and dry runs.

    For a real action only real ones count; a dry run counts dry runs too, as if they had been done.
    A node or link is out from its drain or isolation until it is returned to service.
    """

    now: datetime
    topology: Topology
    settings: RecoverySettings
    last: dict[tuple[str, str, bool], datetime] = field(default_factory=dict)
    resets: dict[tuple[str, bool], list[datetime]] = field(default_factory=dict)
    drained: dict[str, bool] = field(default_factory=dict)
    isolated: dict[str, tuple[str, bool]] = field(default_factory=dict)
    acted: dict[str, tuple[datetime, bool]] = field(default_factory=dict)
    diagnosed: dict[tuple[str, bool], datetime] = field(default_factory=dict)
    spares_given: dict[tuple[str, bool], int] = field(default_factory=dict)
    spares_promised: int = 0

    def add(self, record: ActionRecord) -> None:
        """Records must come in order of time."""
        real = record.outcome in ("done", "pending", "failed")
        if not real and not self._counts(record):
            return
        kind, target = record.request.kind, record.request.target
        self.last[kind, target, real] = record.at
        if kind in RESETS:
            self.resets.setdefault((target, real), []).append(record.at)
        if kind in DISRUPTIVE:
            for node in nodes_touched(record.request.parameters.get("target_kind"), target, self.topology):
                before = self.acted.get(node)
                self.acted[node] = (record.at, real or (before is not None and before[1]))
        if kind == "field_diagnostics" and record.outcome in ("done", "dry-run"):
            self.diagnosed[target, real] = record.at
        self._add_service(record, real=real)

    def _add_service(self, record: ActionRecord, *, real: bool) -> None:
        """What leaves service, returns, or stands in."""
        kind, target, parameters = record.request.kind, record.request.target, record.request.parameters
        if kind == "drain_node":
            self.drained[target] = real or self.drained.get(target, False)
        if kind == "isolate_port":
            self.isolated[target] = (str(parameters.get("cable")), real or self.isolated.get(target, ("", False))[1])
        if kind == "return_to_service" and record.outcome in ("done", "dry-run"):
            self._returned(target, real=real)
        if kind == "allocate_spare":
            count = int(parameters.get("count", 1))
            self.spares_given[target, real] = len(parameters.get("spares", ())) if real else count
            self.spares_promised += 0 if real else count

    def _returned(self, target: str, *, real: bool) -> None:
        """A dry run brings back only what a dry run took. Spares stood in for that time out, not for the next."""
        if real or not self.drained.get(target, False):
            self.drained.pop(target, None)
            self.spares_given.pop((target, False), None)
        if real:
            self.spares_given.pop((target, True), None)
        if real or not self.isolated.get(target, ("", False))[1]:
            self.isolated.pop(target, None)

    def _counts(self, record: ActionRecord) -> bool:
        recent = record.at > self.now - timedelta(seconds=self.settings.dry_run_counts_seconds)
        return record.outcome == "dry-run" and recent

    def last_at(self, kind: str, target: str, mode: Mode) -> datetime | None:
        times = [self.last.get((kind, target, real)) for real in _counted(mode)]
        return max((time for time in times if time is not None), default=None)

    def resets_since(self, target: str, since: datetime, mode: Mode) -> int:
        """Resets of the entity; a node that reboots resets its GPUs too."""
        places = {target, node_of(target)}
        return sum(
            time > since for real in _counted(mode) for place in places for time in self.resets.get((place, real), ())
        )

    def diagnosed_since(self, target: str, since: datetime, mode: Mode) -> bool:
        return any(self.diagnosed.get((target, real), since) > since for real in _counted(mode))

    def nodes_left(self, nodes: frozenset[str], mode: Mode) -> int:
        """How many of a job's nodes are not drained, with the spares that stand in for those that are."""
        drained = self.drained_nodes(mode) & nodes
        given = sum(
            count for (target, real), count in self.spares_given.items() if target in drained and real in _counted(mode)
        )
        return len(nodes) - len(drained) + min(given, len(drained))

    def drained_nodes(self, mode: Mode) -> set[str]:
        return {node for node, real in self.drained.items() if real in _counted(mode)}

    def isolated_links(self, mode: Mode) -> set[str]:
        return {cable for cable, real in self.isolated.values() if real in _counted(mode)}

    def nodes_acted_on(self, since: datetime, mode: Mode) -> set[str]:
        return {node for node, (at, real) in self.acted.items() if at > since and real in _counted(mode)}


def _counted(mode: Mode) -> tuple[bool, ...]:
    return (True,) if mode == "enforce" else (True, False)


def history_from(
    records: Iterable[ActionRecord], topology: Topology, settings: RecoverySettings, now: datetime
) -> History:
    history = History(now, topology, settings)
    for record in records:
        history.add(record)
    return history


def nodes_touched(target_kind: str | None, target: str, topology: Topology) -> tuple[str, ...]:
    """Nodes that feel an action on the target. A job or the cluster as one is no node."""
    match target_kind:
        case "port":
            node = node_of(target)
            return (node,) if node in topology.node_rows else ()
        case None | "cluster" | "job" | "source":
            return ()
        case _:
            return topology.nodes_under(target_kind, target)
