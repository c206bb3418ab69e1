"""The tables of the operations store, the same in SQLite and in PostgreSQL.

Everything that people or recovery did is kept: acknowledgements, notes, verdicts, approvals, breaker events and action
events are only ever added to. Times are whole microseconds since the epoch, UTC, in both databases: exact, and in
order.
"""

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import Dialect

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class UtcTime(sa.TypeDecorator[datetime]):
    """An aware time, stored as microseconds since the epoch. A time without a zone is refused: whose noon is it?"""

    impl = sa.BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:  # noqa: ARG002 - SQLAlchemy's signature
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value.isoformat()} has no time zone; times in the operations store are UTC")
        return (value - EPOCH) // timedelta(microseconds=1)

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 - SQLAlchemy's signature
        return None if value is None else EPOCH + timedelta(microseconds=value)


METADATA = sa.MetaData()

SCHEMA_VERSION = sa.Table("schema_version", METADATA, sa.Column("version", sa.Integer, primary_key=True))

INCIDENTS = sa.Table(
    "incidents", METADATA,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("cause", sa.Text, nullable=False),
    sa.Column("severity", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("root_kind", sa.Text, nullable=False),
    sa.Column("roots", sa.JSON, nullable=False),
    sa.Column("members", sa.JSON, nullable=False),
    sa.Column("symptoms", sa.JSON, nullable=False),
    sa.Column("starts_at", UtcTime, nullable=False),
    sa.Column("detected_at", UtcTime, nullable=False),
    sa.Column("ends_at", UtcTime),
    sa.Column("evidence", sa.JSON, nullable=False),
    sa.Column("findings", sa.JSON, nullable=False, server_default="{}", comment="how many, by cause"),
    sa.Column("merged_into", sa.Text),
    sa.Column("flaps", sa.Integer, nullable=False, server_default="0"),
    sa.Column("updated_at", UtcTime, nullable=False, comment="event time of the step that said so"),
    sa.Index("incidents_detected", "detected_at"),
    sa.Index("incidents_state", "state", "detected_at"),
    sa.Index("incidents_cause", "cause", "detected_at"),
    sa.Index("incidents_ended", "ends_at"),
)  # fmt: skip

ACKNOWLEDGEMENTS = sa.Table(
    "acknowledgements", METADATA,
    sa.Column("incident", sa.ForeignKey("incidents.id"), primary_key=True),
    sa.Column("at", UtcTime, primary_key=True),
    sa.Column("by", sa.Text, primary_key=True),
    sa.Column("state", sa.Text, nullable=False, comment="acknowledged | mitigating"),
    sa.Column("comment", sa.Text, nullable=False),
)  # fmt: skip

NOTES = sa.Table(
    "notes", METADATA,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("incident", sa.ForeignKey("incidents.id"), nullable=False, index=True),
    sa.Column("at", UtcTime, nullable=False),
    sa.Column("by", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
)  # fmt: skip

VERDICTS = sa.Table(
    "verdicts", METADATA,
    sa.Column("incident", sa.ForeignKey("incidents.id"), primary_key=True),
    sa.Column("at", UtcTime, primary_key=True),
    sa.Column("by", sa.Text, primary_key=True),
    sa.Column("is_true", sa.Boolean, nullable=False, comment="false: there was nothing; the last word holds"),
    sa.Column("why", sa.Text, nullable=False),
)  # fmt: skip

SILENCES = sa.Table(
    "silences", METADATA,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("matchers", sa.JSON, nullable=False, comment="[[name, value], ...], all of which must match"),
    sa.Column("starts_at", UtcTime, nullable=False),
    sa.Column("ends_at", UtcTime, nullable=False, index=True),
    sa.Column("by", sa.Text, nullable=False),
    sa.Column("comment", sa.Text, nullable=False),
)  # fmt: skip

# No foreign key to incidents: the ledger outlives them, and a replay plans for incidents that nobody stored.
ACTIONS = sa.Table(
    "actions", METADATA,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("incident", sa.Text, nullable=False, index=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("target", sa.Text, nullable=False),
    sa.Column("parameters", sa.JSON, nullable=False),
    sa.Column("requested_at", UtcTime, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("mode", sa.Text, nullable=False),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("why", sa.Text, nullable=False),
    sa.Column("at", UtcTime, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False, comment="effects begun"),
    sa.Column("recoverable", sa.Boolean, nullable=False, comment="failed without effect, may be tried again"),
    sa.Column("is_out", sa.Boolean, nullable=False, server_default=sa.false(), comment="took out what is out still"),
    sa.Index("actions_outcome", "outcome", "at"),
    sa.Index("actions_kind", "kind", "at"),
    sa.Index("actions_target", "target", "kind", "at"),
    sa.Index("actions_out", "is_out", "target"),
)  # fmt: skip

ACTION_EVENTS = sa.Table(
    "action_events", METADATA,
    sa.Column("sequence", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("action", sa.ForeignKey("actions.id"), nullable=False, index=True),
    sa.Column("at", UtcTime, nullable=False),
    sa.Column("mode", sa.Text, nullable=False),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("why", sa.Text, nullable=False),
)  # fmt: skip

APPROVALS = sa.Table(
    "approvals", METADATA,
    sa.Column("action", sa.ForeignKey("actions.id"), primary_key=True),
    sa.Column("by", sa.Text, primary_key=True),
    sa.Column("verdict", sa.Text, nullable=False, comment="approved | rejected | lapsed: its incident ended first"),
    sa.Column("comment", sa.Text, nullable=False),
    sa.Column("at", UtcTime, nullable=False),
)  # fmt: skip

# Order is that of writing, not of time: a trip is dated by the cluster's clock and a reset by a person's.
BREAKER = sa.Table(
    "breaker", METADATA,
    sa.Column("sequence", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("event", sa.Text, nullable=False, comment="tripped | reset"),
    sa.Column("at", UtcTime, nullable=False),
    sa.Column("by", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
)  # fmt: skip

SPARES = sa.Table(
    "spares", METADATA,
    sa.Column("node", sa.Text, primary_key=True),
    sa.Column("state", sa.Text, nullable=False, comment="available | allocated | repair"),
    sa.Column("action", sa.Text, comment="the action that allocated it"),
    sa.Column("at", UtcTime, nullable=False),
)  # fmt: skip

LEASES = sa.Table(
    "leases", METADATA,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("holder", sa.Text, nullable=False),
    sa.Column("acquired_at", UtcTime, nullable=False),
    sa.Column("expires_at", UtcTime, nullable=False),
)  # fmt: skip

HOLDS = sa.Table(
    "holds", METADATA,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("target", sa.Text, nullable=False, comment="a person has it in hand: automation keeps off"),
    sa.Column("starts_at", UtcTime, nullable=False),
    sa.Column("ends_at", UtcTime, nullable=False, index=True),
    sa.Column("by", sa.Text, nullable=False),
    sa.Column("comment", sa.Text, nullable=False),
    sa.Column("announced_at", UtcTime, comment="of a maintenance window"),
    sa.Column("window", sa.Text, comment="the entity of the maintenance window that covers the target"),
)  # fmt: skip

JOBS = sa.Table(
    "jobs", METADATA,
    sa.Column("job", sa.Text, primary_key=True),
    sa.Column("members", sa.JSON, nullable=False, comment="GPU ids; empty once it has stopped"),
    sa.Column("checkpoint_interval_seconds", sa.Float),
    sa.Column("at", UtcTime, nullable=False),
)  # fmt: skip

DELIVERIES = sa.Table(
    "deliveries", METADATA,
    sa.Column("receiver", sa.Text, primary_key=True),
    sa.Column("incident", sa.Text, primary_key=True),
    sa.Column("said", sa.Text, nullable=False, comment="fingerprint of what the receiver took last"),
    sa.Column("at", UtcTime, nullable=False),
    sa.Column("over", sa.Boolean, nullable=False, comment="the receiver knows that it has ended"),
)  # fmt: skip
