"""What the Kubernetes executor is asked, and what it may say."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from pipelines.recovery.executors.contract import ActionOutcome
from pipelines.recovery.executors.kubernetes import KubernetesExecutor
from schemas.action import ActionRequest
from tests.pipelines.recovery.executors.kubernetes_server import NODE

Make = Callable[..., KubernetesExecutor]


def ask(kind: Any = "drain_node", target: str = NODE, identity: str = "act-1", **parameters: Any) -> ActionRequest:
    return ActionRequest(
        id=identity, incident="inc-1", kind=kind, target=target, parameters=parameters,
        requested_at=datetime(2026, 3, 1, tzinfo=UTC), reason="because",
    )  # fmt: skip


def back(undoes: str = "act-1") -> ActionRequest:
    return ask("return_to_service", identity="act-2", undoes=undoes)


def drained(executor: KubernetesExecutor, request: ActionRequest | None = None) -> ActionOutcome:
    """Begun, and then asked once a second, as the turns of the loop do."""
    asked = request or ask()
    outcome = executor.apply(asked)
    for second in range(1, 20):
        if not outcome.under_way:
            break
        outcome = executor.carry_on(asked, float(second))
    assert not outcome.under_way
    return outcome


def said(outcome: ActionOutcome) -> tuple[bool, bool]:
    assert outcome.detail
    assert "\n" not in outcome.detail
    return outcome.done, outcome.recoverable
