"""What the ledger is asked in every round, made once: a statement that is built anew costs more than its answer.

None of them reads more than what matters now, however long the ledger has grown (indices: operations_tables.ACTIONS).
"""

import sqlalchemy as sa

from pipelines.operations_tables import ACTION_EVENTS, ACTIONS, APPROVALS

REAL = ("done", "pending", "failed")
EFFECTIVE = (*REAL, "dry-run")
TAKES_OUT = ("drain_node", "isolate_port")

_row = ACTIONS.c
_ids = _row.id.in_(sa.bindparam("ids", expanding=True))
_happened = _row.outcome.in_(EFFECTIVE) & ~_row.recoverable
_out = _row.is_out
_oldest_first = (_row.at, _row.id)

KNOWN = sa.select(ACTIONS).where(_ids)
APPROVALS_OF = sa.select(APPROVALS).where(APPROVALS.c.action.in_(sa.bindparam("ids", expanding=True)))
APPROVALS_OF = APPROVALS_OF.order_by(APPROVALS.c.at)
LAPSE = sa.update(APPROVALS).where(APPROVALS.c.action == sa.bindparam("over"), APPROVALS.c.verdict == "approved")
LAPSE = LAPSE.values(verdict="lapsed")
INTENTS = sa.select(sa.exists().where(_row.outcome == "pending"))
UNANSWERED = sa.select(ACTIONS).where(_row.outcome == "pending", _row.at <= sa.bindparam("before"))
UNANSWERED = UNANSWERED.order_by(*_oldest_first)
OVER = "the incident is over"  # why what waited was cancelled; it waits again if the incident comes back
UNDER_WAY = "under way"  # how an intent says that its executor has begun, and is asked again on later turns
BEGUN = sa.select(ACTIONS).where(_row.outcome == "pending", _row.why.startswith(f"{UNDER_WAY}: "))
BEGUN = BEGUN.order_by(*_oldest_first)
# Refused in the end, but approved while it waited: nobody has said that of the incident as it may come back.
_approved = sa.exists().where(APPROVALS.c.action == _row.id, APPROVALS.c.verdict == "approved")
_waits = _row.outcome.in_(("scheduled", "waiting_approval")) | ((_row.outcome == "refused") & _approved)
WAITING = sa.select(ACTIONS).where(_row.incident.in_(sa.bindparam("incidents", expanding=True)), _waits)
TAKEN_OUT = sa.select(ACTIONS).where(_out, _row.outcome != "failed").order_by(*_oldest_first)

# Spares stand in for a node that is out only where they were given when it was taken out, not for an earlier failure.
# The kind is not asked of its index (a text of its own has none), which holds every spare that was ever given.
_drain = ACTIONS.alias("drain")
_theirs = sa.and_(_row.target == _drain.c.target, _row.incident == _drain.c.incident)
_given = sa.select(_row.id).select_from(sa.join(_drain, ACTIONS, _theirs))
_given = _given.where(_drain.c.is_out, _row.kind.concat("") == "allocate_spare", _happened)

# lately: whatever happened since; long_ago: what happened since to one of the places, and spares that were promised.
REMEMBERED = (
    sa.select(ACTIONS)
    .where(
        _row.id.in_(
            sa.union(
                sa.select(_row.id).where(_happened, _row.at > sa.bindparam("lately")),
                sa.select(_row.id).where(
                    _happened, _row.target.in_(sa.bindparam("places", expanding=True)),
                    _row.at > sa.bindparam("long_ago"),
                ),
                sa.select(_row.id).where(_out),
                sa.select(_row.id).where(
                    _row.kind == "allocate_spare", _row.at > sa.bindparam("promised_since"), _row.outcome == "dry-run"
                ),
                _given,
            )
        )
    )
    .order_by(*_oldest_first)
)  # fmt: skip

LEMONS = (
    sa.select(_row.target)
    .where(_row.target.in_(sa.bindparam("among", expanding=True)), _row.kind == "drain_node")
    .where(_row.outcome.in_(REAL), ~_row.recoverable, _row.at > sa.bindparam("since"))
    .group_by(_row.target)
    .having(sa.func.count() >= sa.bindparam("drains"))
)

RENEW = (
    sa.update(ACTIONS)
    .where(_ids, _row.outcome == "pending", _row.at == sa.bindparam("claimed_at"))
    .values(at=sa.bindparam("begins_at"))
)
FINISH = sa.update(ACTIONS).where(_row.id == sa.bindparam("action"), _row.outcome.in_(("pending", "failed")))
ENTER, EVENT = sa.insert(ACTIONS), sa.insert(ACTION_EVENTS)
# What a return brings back: all that is out when it is written, whatever the clocks of who took it out and who brings
# it back say. A rehearsed one only what a rehearsal took.
BROUGHT_BACK = (
    sa.update(ACTIONS)
    .where(_out, _row.target == sa.bindparam("place"))
    .where((_row.outcome == "dry-run") | (sa.bindparam("real", type_=sa.Boolean) == sa.true()))
    .values(is_out=False)
)
