"""The executor of the closed loop: every action takes its time and changes the simulated cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipelines.recovery.executors.contract import ActionOutcome
from pipelines.recovery.heat import CHECKPOINT_SECONDS
from schemas.action import ActionKind, ActionRequest

# Seconds that each takes (assumptions, printed with the report): a scheduler's call, a peer's memory over the fabric,
# a switch's management port; restart_app starts the whole job anew.
SECONDS: Mapping[ActionKind, float] = {
    "drain_node": 0.2, "pause_stage": 0.5, "allocate_spare": 0.1, "restore_shard": 4.0, "resume": 1.0,
    "restart_app": 180.0, "isolate_port": 1.0, "global_checkpoint": CHECKPOINT_SECONDS, "reclaim_gpus": 30.0,
}  # fmt: skip


@dataclass
class SimulatorExecutor:
    """kinds: incident -> what was done for it, in order. seconds: incident -> how long that took together."""

    kinds: dict[str, list[str]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)

    def apply(self, request: ActionRequest) -> ActionOutcome:
        self.done.add(request.id)
        self.kinds.setdefault(request.incident, []).append(request.kind)
        took = SECONDS.get(request.kind, 0.0)
        self.seconds[request.incident] = self.seconds.get(request.incident, 0.0) + took
        return ActionOutcome(done=True, detail=f"simulated, {took:g} s")

    def outcome_of(self, request_id: str) -> ActionOutcome | None:
        return ActionOutcome(done=True) if request_id in self.done else None
