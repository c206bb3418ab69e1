"""The database behind the operations store: opening, one writer at a time, and errors that name the place.

SQLite in WAL mode by default, PostgreSQL by URL. Both behave alike: readers never wait, writers queue up for a
bounded time, and a write transaction sees nothing change between its reads and its writes.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool, StaticPool

BUSY_SECONDS = 10.0
MEMORY = ":memory:"
WRITER_LOCK = 0x686F7473  # any number will do, as long as every process of ours uses the same one


class StoreUnavailable(Exception):
    """The operations database is missing, locked, unreachable or not ours. The message names the path or the URL."""


@dataclass(frozen=True)
class Database:
    """engine: the open database. where: its path, or its URL without the password."""

    engine: sa.Engine
    where: str
    joined: threading.local = field(default_factory=threading.local, repr=False)

    @cached_property
    def _writer(self) -> sa.Engine:
        """The same engine; made once, as every transaction asks for it."""
        return self.engine.execution_options(writes=True)

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A transaction that sees one moment. Inside another transaction of this thread it is that one."""
        with self._transaction(writes=False) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction that no other process writes beside: whole or not at all. Joins an outer writing one."""
        with self._transaction(writes=True) as connection:
            yield connection

    @contextmanager
    def _transaction(self, *, writes: bool) -> Iterator[sa.Connection]:
        outer: tuple[sa.Connection, bool] | None = getattr(self.joined, "transaction", None)
        if outer is not None:
            assert outer[1] or not writes, "a reading transaction cannot become a writing one"
            yield outer[0]
            return
        try:
            with (self._writer if writes else self.engine).begin() as connection:
                if writes and connection.dialect.name == "postgresql":
                    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(WRITER_LOCK)))
                self.joined.transaction = (connection, writes)
                try:
                    yield connection
                finally:
                    self.joined.transaction = None
        except exc.DBAPIError as error:
            if not _unavailable(error):
                raise
            raise StoreUnavailable(f"operations store {self.where}: {_first_line(error)}") from error

    def close(self) -> None:
        self.engine.dispose()


def open_database(where: str | Path, *, create: bool, busy_seconds: float = BUSY_SECONDS) -> Database:
    """A path, ":memory:", or a URL (sqlite or postgresql). Raises StoreUnavailable.

    create: make the SQLite file and its folder when they are missing. PostgreSQL databases are made by people.
    """
    text = str(where)
    if "://" not in text:
        return _open_sqlite(text, create=create, busy_seconds=busy_seconds)
    try:
        url = sa.make_url(text)
        if url.get_backend_name() == "sqlite":
            return _open_sqlite(url.database or MEMORY, create=create, busy_seconds=busy_seconds)
        if url.get_backend_name() != "postgresql":
            raise StoreUnavailable(f"operations store: {url.get_backend_name()} is neither sqlite nor postgresql")
        if url.drivername == "postgresql":  # which SQLAlchemy takes for psycopg2; another driver can be named
            url = url.set(drivername="postgresql+psycopg")
        wait = {
            "connect_timeout": max(2, round(busy_seconds)),
            "options": f"-c lock_timeout={round(busy_seconds * 1000)}",
        }
        engine = sa.create_engine(
            url,
            connect_args=wait,
            pool_pre_ping=True,
            json_serializer=_to_json,
            json_deserializer=msgspec.json.decode,
            hide_parameters=True,
        )
        event.listen(engine, "before_cursor_execute", _without_nul, retval=True)
    except (exc.ArgumentError, ValueError):
        # The text may hold a password, so it is not repeated.
        raise StoreUnavailable(
            "operations store: the URL cannot be read; wanted postgresql://user@host/database"
        ) from None
    except ModuleNotFoundError as error:
        raise StoreUnavailable(
            f"operations store: the PostgreSQL driver {error.name} is missing: `pip install 'hotspare[postgresql]'`"
        ) from None
    return Database(engine, url.render_as_string(hide_password=True))


def _without_nul(_connection: Any, _cursor: Any, statement: str, values: Any, *_: Any) -> tuple[str, Any]:
    return statement, _storable(values)


def _storable(value: Any) -> Any:
    """PostgreSQL's text holds every letter but U+0000, which a name from telemetry may have."""
    if isinstance(value, str):
        return value.replace("\x00", "\ufffd")
    if isinstance(value, dict):
        return {name: _storable(one) for name, one in value.items()}
    return type(value)(map(_storable, value)) if isinstance(value, list | tuple) else value


def _open_sqlite(path: str, *, create: bool, busy_seconds: float) -> Database:
    memory = path == MEMORY
    if not memory and not Path(path).exists():
        if not create:
            raise StoreUnavailable(
                f"operations store {path}: no such file; `hotspare serve` or `hotspare demo` makes one"
            )
        _make_file(path)
    uri = f"file:{quote(str(Path(path).absolute()))}?mode=rw"  # rw: a file that vanishes is an error, not a new file

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(
            MEMORY if memory else uri,
            uri=not memory,
            timeout=busy_seconds,
            isolation_level=None,
            check_same_thread=False,
        )
        _prepare(connection, busy_seconds)
        return connection

    engine = sa.create_engine(
        "sqlite://", creator=connect, poolclass=StaticPool if memory else QueuePool, json_serializer=_to_json,
        json_deserializer=msgspec.json.decode, hide_parameters=True,
    )  # fmt: skip
    event.listen(engine, "begin", _begin)
    if not memory:
        _watch_file(engine, path)
    return Database(engine, path)


def _make_file(path: str) -> None:
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).touch()
    except OSError as error:
        raise StoreUnavailable(f"operations store {path}: cannot be made: {error.strerror}") from error


def _prepare(connection: sqlite3.Connection, busy_seconds: float) -> None:
    """Full sync: an intent must be on the disk before its effect begins."""
    deadline = time.monotonic() + busy_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError as error:
            # Two processes that open a new file at once collide here, where SQLite does not wait by itself.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                connection.close()
                raise
            time.sleep(0.01)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _begin(connection: sa.Connection) -> None:
    """A writer takes its lock at once: upgrading a reader's snapshot later fails without waiting."""
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _watch_file(engine: sa.Engine, path: str) -> None:
    """A pooled connection to a file that was deleted or replaced would write into nothing; drop it."""

    def opened(_: Any, entry: ConnectionPoolEntry) -> None:
        entry.info["file"] = _identity(path)

    def taken(_: Any, entry: ConnectionPoolEntry, __: Any) -> None:
        if entry.info["file"] != _identity(path):
            raise exc.DisconnectionError

    event.listen(engine, "connect", opened)
    event.listen(engine, "checkout", taken)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - a plain call: this runs before every transaction
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


SQLITE_AWAY = {
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_PERM,
}  # fmt: skip


def _unavailable(error: exc.DBAPIError) -> bool:
    """Whether the database is the trouble, and not a statement of ours (which would be a bug, and must show)."""
    if isinstance(error.orig, sqlite3.Error):
        return error.orig.sqlite_errorcode & 0xFF in SQLITE_AWAY
    return isinstance(error, exc.OperationalError | exc.InterfaceError)


def _first_line(error: exc.DBAPIError) -> str:
    return str(error.orig).strip().splitlines()[0]


def _to_json(value: Any) -> str:
    """Times as RFC 3339, tuples as lists, NaN as null: what both databases accept."""
    return msgspec.json.encode(value, order="sorted").decode()
