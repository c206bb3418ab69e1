"""The closed loop: a cluster's failures meet the real policy, guard and ledger, and act on the simulated cluster.

Three arms meet the same failures: people alone; automation with a roll-back to the newest checkpoint; automation with
restored shards and partial gradient skipping (no roll-back). Where the guard refuses, people do it.
"""

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from math import exp
from statistics import NormalDist
from typing import get_args

from pipelines.capacity import CapacitySettings
from pipelines.operations_store import OperationsStore
from pipelines.recovery.executors.simulator import SimulatorExecutor
from pipelines.recovery.recover import recover
from pipelines.recovery.settings import RecoverySettings
from replay.closed_loop import DAY_SECONDS, Failure, Missing, Mix, Stop, effective_share, failures
from schemas.action import ActionKind
from schemas.causes import CAUSE_BY_NAME, Kind
from schemas.incident import Incident
from schemas.topology import Topology

BEGAN = datetime(2026, 3, 1, tzinfo=UTC)
ARMS = ("people", "automation, roll-back", "automation, shards restored")


@dataclass(frozen=True)
class Assumptions:
    """All in seconds but shares. detection: by hotspare, from onset (3.25 missed beats; an XID; a hang's silence).
    people_median, people_sigma: log-normal time until a person has put the job back (median 11 min: arXiv reports of a
    504-GPU cluster), beside the restart. timeout: until a hang ends the job by itself. repair_share: of drained nodes
    that a reset, a reboot and diagnostics bring back after short_repair; the others take capacity.repair_hours.
    """

    detection: Mapping[str, float] = field(
        default_factory=lambda: {
            "gpu_fatal_error": 1.0, "gpu_memory": 1.0, "node_lost": 3.25, "link_flap": 2.0, "job_hang": 60.0,
            "power_domain_lost": 3.0,
        }
    )  # fmt: skip
    people_median: float = 660.0
    people_sigma: float = 0.8
    timeout: float = 600.0
    short_repair: float = 900.0
    repair_share: float = 0.7
    checkpoint_interval: float = 300.0


@dataclass(frozen=True)
class Outcome:
    """One arm of one seed. lost_gpu_hours: against a cluster that never fails and never checkpoints."""

    arm: str
    seed: int
    failures: int
    effective: float
    lost_gpu_hours: float
    dollars: float
    by_people: int
    refused: int


def closed_loop(  # noqa: PLR0913, PLR0917 - an experiment is all of these
    mix: Mix, topology: Topology, days: float, seed: int, costs: CapacitySettings, assumed: Assumptions
) -> tuple[Outcome, ...]:
    """The three arms."""
    drawn = failures(mix, topology, days, seed)
    total = days * DAY_SECONDS
    gpus = sum(row["role"] != "spare" for row in topology.node_rows.values()) * topology.gpus_per_node

    def outcome(arm: str, stops: list[Stop], missing: list[Missing], people: int, refused: int) -> Outcome:
        share = effective_share(stops, missing, total, assumed.checkpoint_interval, costs.checkpoint_stall_seconds)
        lost = (1 - share) * gpus * total / 3600
        return Outcome(arm, seed, len(drawn), share, lost, lost * costs.dollars_per_gpu_hour, people, refused)

    by_people = [Stop(one.at, one.at + _people_seconds(one, costs, assumed), rolls_back=True) for one in drawn]
    loop = _Loop(topology, costs, assumed, total)
    loop.run(drawn)
    restarted = [replace(stop, rolls_back=True, ends=stop.ends + _restart(stop, costs)) for stop in loop.stops]
    return (
        outcome(ARMS[0], by_people, [], len(drawn), 0),
        outcome(ARMS[1], restarted, loop.missing, loop.people, loop.refused),
        outcome(ARMS[2], loop.stops, loop.missing, loop.people, loop.refused),
    )  # fmt: skip


def _restart(stop: Stop, costs: CapacitySettings) -> float:
    """A roll-back restarts every rank; a stop that was a restart anyway has paid for it."""
    return costs.restart_seconds if stop.ends - stop.begins < costs.restart_seconds else 0.0


def _people_seconds(one: Failure, costs: CapacitySettings, assumed: Assumptions) -> float:
    drawn = assumed.people_median * exp(
        assumed.people_sigma * NormalDist().inv_cdf(min(0.999, max(0.001, one.luck[0])))
    )
    return (assumed.timeout if one.cause == "job_hang" else 0.0) + drawn + costs.restart_seconds


@dataclass
class _Loop:
    """Events in order of time; after each one recovery runs with what lasts and what has just ended."""

    topology: Topology
    costs: CapacitySettings
    assumed: Assumptions
    total: float
    plant: SimulatorExecutor = field(default_factory=SimulatorExecutor)
    stops: list[Stop] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    people: int = 0
    refused: int = 0

    def run(self, drawn: tuple[Failure, ...]) -> None:
        store = OperationsStore.open(":memory:")
        settings = RecoverySettings(mode="enforce", drained_nodes_share=0.05)
        executors = dict.fromkeys(get_args(ActionKind), self.plant)
        lasting: dict[str, Incident] = {}
        for at, kind, one in self._events(drawn):
            now = BEGAN + timedelta(seconds=at)
            given: list[Incident] = []
            if kind == "detected":
                lasting[_id(one)] = self._incident(one, now)
                given = [lasting[_id(one)]]
            elif kind == "ended" and _id(one) in lasting:
                given = [replace(lasting.pop(_id(one)), state="resolved", ends_at=now)]
            store.upsert_incidents(given, now)
            records = recover(given, self.topology, store, settings, executors, now)
            if kind == "detected":
                self.refused += sum(record.outcome == "refused" for record in records)
                self._settle(one, at)
        store.close()

    def _events(self, drawn: tuple[Failure, ...]) -> Iterator[tuple[float, str, Failure]]:
        """Detection, the end of repair, and when probation after it is over."""
        waiting: list[tuple[float, int, str, Failure]] = []
        for one in drawn:
            at = one.at + self.assumed.detection[one.cause]
            ends = at + self._repair_seconds(one)
            waiting.append((at, one.number, "detected", one))
            waiting.append((ends, one.number, "ended", one))
            waiting.append((ends + RecoverySettings().node_clean_seconds + 1, one.number, "probation", one))
        heapq.heapify(waiting)
        while waiting:
            at, _, kind, one = heapq.heappop(waiting)
            if at < self.total:
                yield at, kind, one

    def _repair_seconds(self, one: Failure) -> float:
        if one.cause in ("job_hang", "link_flap"):
            return self.assumed.short_repair
        short = one.luck[1] < self.assumed.repair_share
        return self.assumed.short_repair if short else self.costs.repair_hours * 3600

    def _incident(self, one: Failure, now: datetime) -> Incident:
        nodes = self.topology.nodes_under(one.root_kind, one.root) if one.root_kind != "job" else ()
        gpus = (one.root,) if one.root_kind == "gpu" else tuple(f"{node}/0" for node in nodes)
        return Incident(
            id=_id(one), cause=one.cause, severity="page", state="firing", root_kind=_kind(one), roots=(one.root,),
            members=gpus, symptoms=(), starts_at=BEGAN + timedelta(seconds=one.at), detected_at=now, ends_at=None,
            evidence=(),
        )  # fmt: skip

    def _settle(self, one: Failure, at: float) -> None:
        """What recovery did decides when the job goes on."""
        taken = self.plant.kinds.get(_id(one), [])
        end = at + self.plant.seconds.get(_id(one), 0.0)
        if "isolate_port" in taken:
            self.stops.append(Stop(one.at, end, rolls_back=False))  # adaptive routing carries on around it
        elif "resume" in taken:
            self.stops.append(Stop(one.at, end, rolls_back=False))
            if "allocate_spare" not in taken:
                self._without(one, end)
        elif "restart_app" in taken:
            self.stops.append(Stop(one.at, end, rolls_back=True))
        else:
            self.people += 1
            self.stops.append(Stop(one.at, one.at + _people_seconds(one, self.costs, self.assumed), rolls_back=True))

    def _without(self, one: Failure, begins: float) -> None:
        nodes = len(self.topology.nodes_under(one.root_kind, one.root))
        ends = begins + self._repair_seconds(one) + RecoverySettings().node_clean_seconds
        self.missing.append(Missing(begins, ends, nodes / self.topology.nodes.height))


def _id(one: Failure) -> str:
    return f"inc-{one.number:010x}"


def _kind(one: Failure) -> Kind:
    return CAUSE_BY_NAME[one.cause].kind
