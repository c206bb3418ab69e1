"""What follows when a step of recovery did not work: never silence. Pure.

Resets used up: field diagnostics, and after those RMA. No spare: the stage goes on without the node, or at reduced
capacity without the power domain where GPUs cannot be reclaimed either. A step that failed, or missed its deadline: a
ticket that says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from pipelines.recovery.checks import Refusal
from pipelines.recovery.history import History
from pipelines.recovery.phases import deadline_at
from pipelines.recovery.settings import RecoverySettings
from schemas.action import ActionKind, ActionRecord, ActionRequest, action_id

STUCK = ("refused", "waiting_approval", "pending")


def escalations(
    records: Sequence[ActionRecord], history: History, settings: RecoverySettings, retryable: frozenset[str]
) -> tuple[ActionRequest, ...]:
    """Requests for what stands in the records, one each at most; the same records give the same ids.

    history: of the targets whose resets are used up. retryable: actions that failed without effect and will be tried
    again by themselves.
    """
    by_id = {record.request.id: record for record in records}
    found: dict[str, ActionRequest] = {}
    for record in records:
        follow = _follow(record, by_id, history, settings, retryable)
        if follow is not None:
            found.setdefault(follow.id, follow)
    return tuple(found.values())


def _follow(
    record: ActionRecord,
    by_id: Mapping[str, ActionRecord],
    history: History,
    settings: RecoverySettings,
    retryable: frozenset[str],
) -> ActionRequest | None:
    request = record.request
    if request.kind == "open_ticket":
        return None
    if refusal_of(record) == Refusal.RESETS_USED_UP:
        since = history.now - timedelta(days=settings.resets_window_days)
        mode = settings.mode_of(request.kind)
        diagnosed = history.diagnosed_since(request.target, since, mode)
        kind: ActionKind = "rma" if diagnosed else "field_diagnostics"
        return _instead(record, kind, f"{settings.resets_maximum} resets did not help")
    if refusal_of(record) == Refusal.NO_SPARE and request.kind == "allocate_spare":
        return _no_spare(record, by_id)
    return _complaint(record, by_id, history.now, retryable)


def _complaint(
    record: ActionRecord, by_id: Mapping[str, ActionRecord], now: datetime, retryable: frozenset[str]
) -> ActionRequest | None:
    what = f"{record.request.kind} of {record.request.target}"
    if record.outcome == "failed" and record.request.id not in retryable:
        return _ticket(record, f"{what} failed: {record.why}")
    deadline = deadline_at(record, by_id)
    if refusal_of(record) == Refusal.STANDS_READY:
        return None
    if record.mode == "enforce" and record.outcome in STUCK and deadline is not None and deadline < now:
        return _ticket(record, f"{what} is late ({record.outcome}): {record.why}")
    return None


def refusal_of(record: ActionRecord) -> str | None:
    """Which of the guard's refusals it is; None of what was not refused."""
    return record.why.partition(":")[0] if record.outcome == "refused" else None


def _instead(record: ActionRecord, kind: ActionKind, reason: str) -> ActionRequest:
    """The next rung on the same place, behind the same earlier step."""
    request = record.request
    return replace(request, id=action_id(request.incident, kind, request.target), kind=kind, reason=reason)


def _no_spare(record: ActionRecord, by_id: Mapping[str, ActionRecord]) -> ActionRequest | None:
    """Better a smaller job than one that stands still: for a node once its stage is paused, for a power domain once
    no GPUs can be reclaimed elsewhere either. A spare that comes later is still taken.
    """
    request = record.request
    paused = by_id.get(str(request.parameters.get("after")))
    if paused is not None:
        stands = paused.request.kind == "pause_stage" and paused.outcome in ("done", "dry-run")
        return _without(record, "no spare: go on without the node", paused.request.id) if stands else None
    ours = (one for one in by_id.values() if one.request.incident == request.incident)
    reclaim = next((one for one in ours if one.request.kind == "reclaim_gpus"), None)
    if reclaim is None or reclaim.outcome not in ("refused", "failed", "rejected", "cancelled"):
        return None
    what = f"no spare, and reclaim_gpus is {reclaim.outcome}"
    return _without(record, f"{what}: go on at reduced capacity, without {request.target}", None)


def _without(record: ActionRecord, reason: str, after: str | None) -> ActionRequest:
    request = record.request
    carried = {**request.parameters, "without": request.target, "partial_gradient_skipping": True}
    return replace(
        request, id=action_id(f"{request.incident}/without", "resume", request.target), kind="resume", reason=reason,
        parameters=carried if after is None else {**carried, "after": after},
    )  # fmt: skip


def _ticket(record: ActionRecord, text: str) -> ActionRequest:
    request = record.request
    carried = {
        "target_kind": request.parameters.get("target_kind"), "cause": request.parameters.get("cause"),
        "about": request.id, "escalates": True,
    }  # fmt: skip
    return ActionRequest(
        id=action_id(f"{request.incident}/{request.id}", "open_ticket", request.target), incident=request.incident,
        kind="open_ticket", target=request.target, parameters=carried, requested_at=record.at, reason=text,
    )  # fmt: skip
