"""Requests, records and facts that the guard's tests are made of."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pipelines.operations_records import Breaker
from pipelines.recovery.facts import Facts
from pipelines.recovery.history import history_from
from pipelines.recovery.settings import RecoverySettings
from schemas.action import ActionRecord, ActionRequest
from schemas.topology import Topology

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
ENFORCE = RecoverySettings(mode="enforce", approvals={})
CLOSED = Breaker(tripped=False, at=None, by="", reason="")
TRIPPED = Breaker(tripped=True, at=T0, by="recovery", reason="half of the nodes")
KINDS = frozenset(
    {"drain_node", "reset_gpu", "isolate_port", "reboot_node", "allocate_spare", "staged_shutdown", "raise_flow"}
)


def later(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def ask(kind: Any, target: str, target_kind: str = "node", at: datetime = T0, **parameters: Any) -> ActionRequest:
    return ActionRequest(
        id=f"act-{kind}-{target}-{at.isoformat()}", incident="inc-1", kind=kind, target=target,
        parameters={"target_kind": target_kind, **parameters}, requested_at=at, reason="because",
    )  # fmt: skip


def done(request: ActionRequest, at: datetime = T0, outcome: Any = "done") -> ActionRecord:
    mode: Any = "dry-run" if outcome == "dry-run" else "enforce"
    return ActionRecord(request=request, mode=mode, outcome=outcome, why="", at=at)


def facts(
    topology: Topology, *past: ActionRecord, now: datetime = T0, chosen: RecoverySettings = ENFORCE, **changes: Any
) -> Facts:
    sound = Facts(
        now=now, topology=topology, history=history_from(past, topology, chosen, now), breaker=CLOSED,
        degraded=frozenset(), known={}, approvals={}, spares_available=4, held=frozenset(), jobs={},
        executors=KINDS,
    )  # fmt: skip
    return replace(sound, **changes)
