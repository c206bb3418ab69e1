"""Back to work: what automation took out returns by itself once it is whole and has stayed so. Pure.

A link returns when no detector has complained about it (bit error rates before and after correction, received power,
flaps) for the clean window, which begins anew with the end of each complaint. A node passes field diagnostics, then
probation of its own. What must not come back by itself: anything a person holds, what is going to RMA, and whatever a
leak took down (no automatic power-on).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from pipelines.recovery.settings import RecoverySettings
from schemas.action import ActionKind, ActionRecord, ActionRequest, action_id
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
    complaints: Sequence[Incident],
    taken_for: Mapping[str, Sequence[ActionRecord]],
    settings: RecoverySettings,
    now: datetime,
) -> tuple[ActionRequest, ...]:
    """Diagnostics and returns that are due. taken: outstanding. incidents: those they were taken for, by id.

    complaints: incidents that last, and those that ended within the clean windows. taken_for: incident id -> all that
    was done for it.
    """
    found: list[ActionRequest] = []
    for record, ended, quiet_since in _quiet(taken, incidents, complaints):
        done = taken_for.get(record.request.incident, ())
        found.extend(_due(record, done, ended, quiet_since, settings, now))
    return tuple(found)


def releases(
    lent: Sequence[ActionRecord], incidents: Mapping[str, Incident], complaints: Sequence[Incident],
    settings: RecoverySettings, now: datetime,
) -> tuple[ActionRequest, ...]:  # fmt: skip
    """Spares that stood in for a power domain go back once it has been whole for as long as a node's probation: its
    nodes take their ranks again. lent: of spares.lent. The others are as in returns.
    """
    found: list[ActionRequest] = []
    for record, _, quiet_since in _quiet(lent, incidents, complaints):
        clean = quiet_since + timedelta(seconds=settings.node_clean_seconds)
        if now >= clean:
            why = f"{record.request.target} has been whole for {settings.node_clean_seconds / 60:g} min"
            back = _request(record, "release_spare", clean, why)
            back.parameters["spares"] = record.request.parameters.get("spares", [])
            found.append(back)
    return tuple(found)


def ways_back(
    taken: Sequence[ActionRecord], incidents: Mapping[str, Incident], complaints: Sequence[Incident],
    taken_for: Mapping[str, Sequence[ActionRecord]], settings: RecoverySettings,
) -> dict[str, str]:  # fmt: skip
    """Action that took something out -> when that returns, or what it waits for, in words. Arguments as in returns."""
    quiet = {record.request.id: since for record, *since in _quiet(taken, incidents, complaints)}
    return {
        record.request.id: _way_back(
            record, quiet.get(record.request.id), incidents.get(record.request.incident),
            taken_for.get(record.request.incident, ()), settings,
        ) for record in taken
    }  # fmt: skip


def _way_back(
    record: ActionRecord, quiet: Sequence[datetime] | None, incident: Incident | None, done: Sequence[ActionRecord],
    settings: RecoverySettings,
) -> str:  # fmt: skip
    """quiet: when its incident ended and since when nobody complains; None while that, or something else, lasts."""
    by_hand = f"only by a person's word: hotspare actions returned {record.request.target}"
    is_port = record.request.kind == "isolate_port"
    minutes = (settings.link_clean_seconds if is_port else settings.node_clean_seconds) / 60
    window = f"{minutes:g} min without a complaint{'' if is_port else ', diagnostics passed,'}"
    if incident is not None and incident.cause in BY_HAND:
        return by_hand
    if quiet is None:
        is_over = incident is not None and incident.state == "resolved"
        return f"by itself, {window} after {'what complains of it now' if is_over else record.request.incident} is over"
    due = _due(record, done, quiet[0], quiet[1], settings, datetime.max.replace(tzinfo=UTC))
    if not due:
        return f"{by_hand}, as it goes to its maker"
    asked = next((one for one in done if one.request.id == due[0].id), None)
    if asked is not None:
        return f"once {asked.request.kind} is done, which is {asked.outcome} ({asked.why})"
    if due[0].kind != "return_to_service":
        return f"by itself, {window} after {record.request.incident}"
    return (
        f"by itself at {due[0].requested_at:%Y-%m-%d %H:%M:%S}; a complaint before then begins its {minutes:g} min anew"
    )


def _quiet(
    records: Sequence[ActionRecord], incidents: Mapping[str, Incident], complaints: Sequence[Incident]
) -> Iterator[tuple[ActionRecord, datetime, datetime]]:
    """Of these, those whose incident is over, where nobody complains: when it ended, and since when all is quiet."""
    lasting: set[str] = set()
    ended_at: dict[str, datetime] = {}
    for one in complaints:
        links = (entity for kind, entity in one.symptoms if kind in ("link", "cable"))
        places = {*map(_place, one.roots), *map(node_of, one.members), *links}
        if one.state != "resolved" or one.ends_at is None:
            lasting |= places
        else:
            ended_at.update({place: max(one.ends_at, ended_at.get(place, one.ends_at)) for place in places})
    for record in records:
        incident = incidents.get(record.request.incident)
        ended = None if incident is None or incident.state != "resolved" else incident.ends_at
        place = str(record.request.parameters.get("cable") or record.request.target)
        if ended is not None and incident is not None and incident.cause not in BY_HAND and place not in lasting:
            yield record, ended, max(ended, ended_at.get(place, ended))


def _due(  # noqa: PLR0913, PLR0917 - what was taken, what was done since, and three moments
    record: ActionRecord, done: Sequence[ActionRecord], ended: datetime, quiet_since: datetime,
    settings: RecoverySettings, now: datetime,
) -> list[ActionRequest]:  # fmt: skip
    """quiet_since: nobody has complained of the place after it."""
    target = record.request.target
    here = [one for one in done if node_of(one.request.target) == node_of(target) and one.request.kind in WORK]
    if any(one.request.kind == "rma" and one.outcome in ("done", "dry-run", "pending") for one in here):
        return []
    worked = max([quiet_since, *(one.at for one in here if one.outcome in ("done", "dry-run"))])
    if record.request.kind == "isolate_port":
        clean = worked + timedelta(seconds=settings.link_clean_seconds)
        why = f"no complaint for {settings.link_clean_seconds / 60:g} min"
        return [_request(record, "return_to_service", clean, why)] if now >= clean else []
    diagnostics = _request(record, "field_diagnostics", ended, "before it may work again")
    passed = next((one for one in done if one.request.id == diagnostics.id), None)
    if passed is None or passed.outcome not in ("done", "dry-run"):
        return [diagnostics]
    clean = max(passed.at, quiet_since) + timedelta(seconds=settings.node_clean_seconds)
    why = f"diagnostics passed, no complaint for {settings.node_clean_seconds / 60:g} min since"
    back = _request(record, "return_to_service", clean, why, after=diagnostics.id)
    given = ("allocate_spare", target, "done")
    back.parameters["replaced"] = any((one.request.kind, one.request.target, one.outcome) == given for one in done)
    return [back] if now >= clean else []


def _request(
    record: ActionRecord, kind: ActionKind, at: datetime, reason: str, *, after: str | None = None
) -> ActionRequest:
    request = record.request
    carried = {
        name: value for name, value in request.parameters.items() if name in ("target_kind", "cause", "cable", "tier")
    }
    follows = {} if after is None else {"after": after}
    return ActionRequest(
        id=action_id(request.incident, kind, request.target), incident=request.incident, kind=kind,
        target=request.target, parameters={**carried, "undoes": request.id, **follows}, requested_at=at, reason=reason,
    )  # fmt: skip


def _place(root: str) -> str:
    """A GPU's trouble is its node's."""
    return node_of(root)
