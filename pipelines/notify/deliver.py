"""Telling people: what has changed since a receiver was last told, read from the operations store alone.

So it runs beside the loop that judges telemetry and never holds it up; a receiver that is away is told later; a
restart tells nothing twice. Silences and maintenance windows keep quiet what has not been told yet, and what still
lasts after them is told then; an end is told to whoever knows the begin.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2s

import sqlalchemy as sa

from pipelines.notify.page import page_of
from pipelines.notify.quiet import Quiet, quiet
from pipelines.notify.receivers import PageRefused, Receiver
from pipelines.notify.settings import NotifySettings
from pipelines.operations_store import OperationsStore, insert_into
from pipelines.operations_tables import DELIVERIES
from pipelines.recovery.ledger import Ledger
from schemas.action import ActionRecord
from schemas.incident import Incident, State

NOTHING_SAID = ""
TOLD_STATES: tuple[State, ...] = ("firing", "acknowledged", "mitigating", "resolved")


@dataclass(frozen=True)
class Delivered:
    """told: how many pages were taken. troubles: "receiver: why not", at most one a receiver."""

    told: int
    troubles: tuple[str, ...]


def deliver(
    store: OperationsStore, receivers: Sequence[Receiver], settings: NotifySettings, now: datetime,
    lasting_now: Collection[str] = (),
) -> Delivered:  # fmt: skip
    """One round. now: wall-clock time. lasting_now: incidents that telemetry of these minutes shows to last, which are
    news to whoever has not been told, however long ago they were detected. Raises StoreUnavailable.
    """
    told, troubles = 0, list[str]()
    since = now - timedelta(seconds=settings.old_seconds)
    ledger = Ledger(store)
    old = [one for one in store.incidents(states=TOLD_STATES[:-1], limit=None) if one.detected_at < since]
    muted, unmuted = quiet(store, old, now)
    # However long ago a window or silence has ended, nobody could be told of these.
    late = (one for one in old if unmuted.mutes(one) or one.id in lasting_now)
    fresh = (*store.incidents(since=since, limit=None), *late)
    for receiver in receivers:
        known = _known(store, receiver.name)
        lasting = {name for name, (_, _, over) in known.items() if not over} - {one.id for one in fresh}
        told_over = {name for name, (_, _, over) in known.items() if over} - {one.id for one in fresh}
        again = [one for one in old if one.id in told_over]  # news, though it was first detected long ago
        is_away = False
        for incident in (*fresh, *again, *(store.incident(name) for name in sorted(lasting))):
            if is_away and incident.id in known:
                continue
            records = ledger.actions(incident=incident.id, limit=None)
            said = fingerprint(incident, records)
            if not _is_due(incident, said, known.get(incident.id), receiver, muted, settings, now):
                continue
            if is_away:
                _owe(store, receiver.name, incident, known, now)
                continue
            trouble = receiver.tell(page_of(incident, sorted(records, key=lambda one: one.at), settings.runbooks), now)
            if trouble is not None:
                said_before = any(one.startswith(f"{receiver.name}: ") for one in troubles)
                troubles += [] if said_before else [f"{receiver.name}: {trouble}"]
                if not isinstance(trouble, PageRefused):
                    is_away = True  # the next round tries again; the rest would meet the same
                    _owe(store, receiver.name, incident, known, now)
                continue
            _remember(store, receiver.name, incident, said, now)
            told += 1
    return Delivered(told, tuple(troubles))


def fingerprint(incident: Incident, records: Sequence[ActionRecord]) -> str:
    """What must change for a receiver to be told again: not evidence, not a dry run, but what a person would act on."""
    asked = sorted(one.request.id for one in records if one.outcome in ("waiting_approval", "failed"))
    over = incident.state == "resolved"
    parts = (incident.cause, incident.severity, incident.roots, len(incident.members), over, asked)
    return blake2s(repr(parts).encode(), digest_size=8).hexdigest()


def _is_due(  # noqa: PLR0913, PLR0917 - one question about one incident, one receiver and one moment
    incident: Incident,
    said: str,
    known: tuple[str, datetime, bool] | None,
    receiver: Receiver,
    muted: Quiet,
    settings: NotifySettings,
    now: datetime,
) -> bool:
    if incident.state not in TOLD_STATES or incident.severity not in settings.severities:
        return False
    over = incident.state == "resolved"
    if known is None or known[2]:  # it begins, or begins anew
        return not over and not muted.mutes(incident)
    resend = receiver.resends and not over and now - known[1] >= timedelta(seconds=settings.resend_seconds)
    return known[0] != said or resend


def _known(store: OperationsStore, receiver: str) -> dict[str, tuple[str, datetime, bool]]:
    row = DELIVERIES.c
    wanted = sa.select(row.incident, row.said, row.at, row.over).where(row.receiver == receiver)
    with store.reading() as connection:
        return {incident: (said, at, over) for incident, said, at, over in connection.execute(wanted)}


def _remember(store: OperationsStore, receiver: str, incident: Incident, said: str, now: datetime) -> None:
    _write(store, receiver, incident, said, now, over=incident.state == "resolved")


def _owe(store: OperationsStore, receiver: str, incident: Incident, known: Mapping[str, object], now: datetime) -> None:
    """A begin that could not be told stays news until it can be, also when that is long after it was detected."""
    if incident.id not in known:
        _write(store, receiver, incident, NOTHING_SAID, now, over=True)


def _write(  # noqa: PLR0913 - the row
    store: OperationsStore, receiver: str, incident: Incident, said: str, now: datetime, *, over: bool
) -> None:
    row = {"receiver": receiver, "incident": incident.id, "said": said, "at": now, "over": over}
    with store.writing() as connection:
        insert = insert_into(connection, DELIVERIES).values(**row)
        changed = {name: insert.excluded[name] for name in ("said", "at", "over")}
        connection.execute(insert.on_conflict_do_update(index_elements=["receiver", "incident"], set_=changed))
