"""How an operations database comes to the version this code speaks: made at once when new, step by step when older."""

import sqlalchemy as sa

from pipelines.operations_database import Database, StoreUnavailable
from pipelines.operations_tables import METADATA, SCHEMA_VERSION

# Step n brings version n + 1 to n + 2, as SQL that SQLite and PostgreSQL both take. Steps are only ever added.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "ALTER TABLE incidents ADD COLUMN findings JSON NOT NULL DEFAULT '{}'",
        "ALTER TABLE incidents ADD COLUMN merged_into TEXT",
        "ALTER TABLE incidents ADD COLUMN flaps INTEGER NOT NULL DEFAULT 0",
        """CREATE TABLE holds (id TEXT PRIMARY KEY, target TEXT NOT NULL, starts_at BIGINT NOT NULL,
        ends_at BIGINT NOT NULL, "by" TEXT NOT NULL, comment TEXT NOT NULL)""",
        "CREATE INDEX ix_holds_ends_at ON holds (ends_at)",
        """CREATE TABLE jobs (job TEXT PRIMARY KEY, members JSON NOT NULL, checkpoint_interval_seconds FLOAT,
        at BIGINT NOT NULL)""",
        """CREATE TABLE deliveries (receiver TEXT NOT NULL, incident TEXT NOT NULL, said TEXT NOT NULL,
        at BIGINT NOT NULL, over BOOLEAN NOT NULL, PRIMARY KEY (receiver, incident))""",
    ),
    (
        "CREATE INDEX IF NOT EXISTS actions_kind ON actions (kind, at)",
        "CREATE INDEX IF NOT EXISTS actions_target ON actions (target, kind, at)",
        "ALTER TABLE actions ADD COLUMN is_out BOOLEAN NOT NULL DEFAULT FALSE",
        """UPDATE actions SET is_out = TRUE WHERE kind IN ('drain_node', 'isolate_port')
        AND outcome IN ('done', 'pending', 'failed', 'dry-run') AND NOT recoverable AND NOT EXISTS (
        SELECT 1 FROM actions AS back WHERE back.target = actions.target AND back.kind = 'return_to_service'
        AND (SELECT MAX(sequence) FROM action_events WHERE action = back.id)
        > (SELECT MAX(sequence) FROM action_events WHERE action = actions.id) AND (back.outcome = 'done'
        OR (back.outcome = 'dry-run' AND actions.outcome = 'dry-run')))""",
        "CREATE INDEX actions_out ON actions (is_out, target)",
    ),
    (
        """CREATE TABLE verdicts (incident TEXT NOT NULL REFERENCES incidents (id), at BIGINT NOT NULL,
        "by" TEXT NOT NULL, is_true BOOLEAN NOT NULL, why TEXT NOT NULL, PRIMARY KEY (incident, at, "by"))""",
    ),
    (
        "ALTER TABLE holds ADD COLUMN announced_at BIGINT",
        'ALTER TABLE holds ADD COLUMN "window" TEXT',
    ),
    ("CREATE INDEX IF NOT EXISTS incidents_ended ON incidents (ends_at)",),
)


class NewerStore(StoreUnavailable):
    """The database was written by a later version of hotspare."""


def migrate(database: Database, migrations: tuple[tuple[str, ...], ...] = MIGRATIONS) -> None:
    """Bring the database to version 1 + len(migrations), whole or not at all. Raises NewerStore, StoreUnavailable."""
    newest = 1 + len(migrations)
    with database.reading() as connection:
        if _version(connection) == newest:
            return
    with database.writing() as connection:
        found = _version(connection)  # again: another process may have been first
        if found is None:
            METADATA.create_all(connection)
            connection.execute(sa.insert(SCHEMA_VERSION).values(version=newest))
            return
        if found > newest:
            raise NewerStore(
                f"operations store {database.where}: it is of version {found} and this hotspare speaks {newest}; "
                "update hotspare"
            )
        for statements in migrations[found - 1 :]:
            for statement in statements:
                connection.exec_driver_sql(statement)
        connection.execute(sa.update(SCHEMA_VERSION).values(version=newest))


def _version(connection: sa.Connection) -> int | None:
    if not sa.inspect(connection).has_table(SCHEMA_VERSION.name):
        return None
    version: int | None = connection.scalar(sa.select(sa.func.max(SCHEMA_VERSION.c.version)))
    return version
