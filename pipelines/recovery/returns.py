"""Back to work: what automation took out returns by itself once it is whole and has stayed so. Pure.

A link returns when no detector has complained about it (bit error rates before and after correction, received power,
flaps) for the clean window. A node passes field diagnostics, then probation of its own. What must not come back by
itself: anything a person holds, what is going to RMA, and whatever a leak took down (no automatic power-on).
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from pipelines.recovery.settings import RecoverySettings
from schemas.action import ActionRecord, ActionRequest, action_id
from schemas.incident import Incident
from schemas.topology import node_of

BY_HAND = frozenset({"coolant_leak"})  # causes after which only a person powers on or returns anything
WORK = ("rma", "field_diagnostics", "reset_gpu", "reboot_node", "reset_port", "clean_connector", "reseat")


def outstanding(records: Iterable[ActionRecord], settings: RecoverySettings) -> tuple[ActionRecord, ...]:
    """Of what is out, the last action that took each out, in the mode that a return would have now: a real return must
    not bring back what somebody else drained. records: the ledger's taken_out.
    """
    wanted = "done" if settings.mode_of("return_to_service") == "enforce" else "dry-run"
    return tuple({record.request.target: record for record in records if record.outcome == wanted}.values())


def returns(  # noqa: PLR0913, PLR0917 - what was taken, why, what lasts, what was done: each its own thing
    taken: Sequence[ActionRecord],
    incidents: Mapping[str, Incident],
    active: Sequence[Incident],
    taken_for: Mapping[str, Sequence[ActionRecord]],
    settings: RecoverySettings,
    now: datetime,
) -> tuple[ActionRequest, ...]:
    """Diagnostics and returns that are due. taken: outstanding. incidents: those they were taken for, by id.

    active: incidents that last. taken_for: incident id -> all that was done for it.
    """
    complained = {_place(root) for one in active for root in one.roots}
    complained.update(node_of(member) for one in active for member in one.members)
    found: list[ActionRequest] = []
    for record in taken:
        incident = incidents.get(record.request.incident)
        ended = None if incident is None or incident.state != "resolved" else incident.ends_at
        if ended is None or incident is None or incident.cause in BY_HAND:
            continue
        place = str(record.request.parameters.get("cable") or record.request.target)
        if place in complained:
            continue
        found.extend(_due(record, taken_for.get(incident.id, ()), ended, settings, now))
    return tuple(found)


def _due(
    record: ActionRecord, done: Sequence[ActionRecord], ended: datetime, settings: RecoverySettings, now: datetime
) -> list[ActionRequest]:
    target = record.request.target
    here = [one for one in done if node_of(one.request.target) == node_of(target) and one.request.kind in WORK]
    if any(one.request.kind == "rma" and one.outcome in ("done", "dry-run", "pending") for one in here):
        return []
    worked = max([ended, *(one.at for one in here if one.outcome in ("done", "dry-run"))])
    if record.request.kind == "isolate_port":
        clean = worked + timedelta(seconds=settings.link_clean_seconds)
        why = f"no complaint for {settings.link_clean_seconds / 60:g} min"
        return [_request(record, "return_to_service", clean, why)] if now >= clean else []
    diagnostics = _request(record, "field_diagnostics", ended, "before it may work again")
    passed = next((one for one in done if one.request.id == diagnostics.id), None)
    if passed is None or passed.outcome not in ("done", "dry-run"):
        return [diagnostics]
    clean = passed.at + timedelta(seconds=settings.node_clean_seconds)
    why = f"diagnostics passed, no complaint for {settings.node_clean_seconds / 60:g} min since"
    back = _request(record, "return_to_service", clean, why, after=diagnostics.id)
    back.parameters["replaced"] = any(one.request.kind == "allocate_spare" and one.outcome == "done" for one in done)
    return [back] if now >= clean else []


def _request(record: ActionRecord, kind: str, at: datetime, reason: str, *, after: str | None = None) -> ActionRequest:
    request = record.request
    carried = {
        name: value for name, value in request.parameters.items() if name in ("target_kind", "cause", "cable", "tier")
    }
    follows = {} if after is None else {"after": after}
    return ActionRequest(
        id=action_id(request.incident, kind, request.target), incident=request.incident,
        kind="return_to_service" if kind == "return_to_service" else "field_diagnostics", target=request.target,
        parameters={**carried, "undoes": request.id, **follows}, requested_at=at, reason=reason,
    )  # fmt: skip


def _place(root: str) -> str:
    """A GPU's trouble is its node's."""
    return node_of(root)
