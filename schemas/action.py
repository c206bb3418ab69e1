"""What recovery asks for, and what became of it."""

from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2s
from typing import Any, Literal

ActionKind = Literal[
    "restart_app", "reset_gpu", "drain_node", "reboot_node", "field_diagnostics", "rma",
    "pause_stage", "allocate_spare", "release_spare", "restore_shard", "resume", "global_checkpoint", "reclaim_gpus",
    "isolate_port", "reset_port", "clean_connector", "reseat", "replace_cable", "return_to_service",
    "raise_flow", "cap_power", "staged_shutdown", "isolate_loop", "switch_pump", "open_ticket",
]  # fmt: skip
Mode = Literal["observe", "dry-run", "enforce"]
# scheduled: it is done later, if what it is for lasts, or once an earlier step is done. cancelled: the incident ended
# first, or a person said so.
Outcome = Literal[
    "observed", "dry-run", "scheduled", "pending", "waiting_approval", "done", "failed", "refused", "rejected",
    "cancelled",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ActionRequest:
    """What policy wants done. `parameters` is plain data: executors never build a command line from it."""

    id: str
    incident: str
    kind: ActionKind
    target: str
    parameters: dict[str, Any]
    requested_at: datetime
    reason: str


@dataclass(frozen=True, kw_only=True)
class ActionRecord:
    """A request with the guard's decision and the outcome, as the ledger keeps it. at: event time of the outcome."""

    request: ActionRequest
    mode: Mode
    outcome: Outcome
    why: str
    at: datetime


def action_id(incident: str, kind: str, target: str) -> str:
    """One action of a kind on a target for one incident: asking twice is asking once."""
    return "act-" + blake2s(f"{incident}\x1f{kind}\x1f{target}".encode(), digest_size=6).hexdigest()
