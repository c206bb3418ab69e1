"""Returns of nodes and of ports: who drains nodes knows no ports, so what took a port out brings it back."""

from dataclasses import dataclass

from pipelines.recovery.executors.contract import ActionOutcome, Executor
from schemas.action import ActionRequest


@dataclass(frozen=True)
class ReturnExecutor:
    """nodes: who returns nodes. ports: who isolates ports."""

    nodes: Executor
    ports: Executor

    def apply(self, request: ActionRequest) -> ActionOutcome:
        return (self.ports if request.parameters.get("target_kind") == "port" else self.nodes).apply(request)

    def outcome_of(self, request_id: str) -> ActionOutcome | None:
        """Ports first: an executor of nodes may say of what it was never asked that it was not begun."""
        return self.ports.outcome_of(request_id) or self.nodes.outcome_of(request_id)
