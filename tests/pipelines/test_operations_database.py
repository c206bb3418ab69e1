import multiprocessing
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from pipelines.operations_database import StoreUnavailable
from pipelines.operations_migrations import MIGRATIONS, NewerStore, migrate
from pipelines.operations_store import OperationsStore
from schemas.incident import Incident

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)


def later(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def made(number: int = 0, **changes: Any) -> Incident:
    values: dict[str, Any] = {
        "id": f"inc-{number:010x}", "cause": "link_flap", "severity": "page", "state": "firing", "root_kind": "link",
        "roots": ("cable-1",), "members": ("n00001/3",), "symptoms": (("job", "train"),), "starts_at": T0,
        "detected_at": later(number), "ends_at": None, "evidence": ({"flaps": 3},),
    }  # fmt: skip
    return Incident(**{**values, **changes})


def sqlite_url(path: Path) -> str:
    return str(path / "var" / "operations.sqlite")


def test_a_missing_file_is_named_and_not_made_by_a_reader(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"operations\.sqlite: no such file"):
        OperationsStore.open(sqlite_url(tmp_path), create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_vanishes_while_open_is_an_error_not_a_new_file(tmp_path: Path) -> None:
    store = OperationsStore.open(sqlite_url(tmp_path))
    store.upsert_incidents([made()], T0)
    for file in (tmp_path / "var").iterdir():
        file.unlink()
    with pytest.raises(StoreUnavailable, match=r"operations\.sqlite"):
        store.upsert_incidents([made(1)], T0)
    store.close()
    assert list((tmp_path / "var").iterdir()) == []


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "operations.sqlite"
    path.write_bytes(b"not a database, but long enough to have a header" * 100)
    with pytest.raises(StoreUnavailable, match=r"operations\.sqlite: file is not a database"):
        OperationsStore.open(path)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match="cannot be made"):
        OperationsStore.open(tmp_path / "file" / "operations.sqlite")


def test_a_locked_database_is_one_clear_error_and_readers_go_on(tmp_path: Path) -> None:
    store = OperationsStore.open(sqlite_url(tmp_path), busy_seconds=0.05)
    other = sqlite3.connect(sqlite_url(tmp_path), isolation_level=None)
    other.execute("begin immediate")
    with pytest.raises(StoreUnavailable, match=r"operations\.sqlite: database is locked"):
        store.upsert_incidents([made()], T0)
    assert store.incidents() == ()
    other.close()
    store.upsert_incidents([made()], T0)
    assert len(store.incidents()) == 1
    store.close()


URL_OF_NOBODY = "postgresql://user:secret@127.0.0.1:1/db"  # nothing listens there, where there is a driver at all


@pytest.mark.parametrize("url", ["mysql://h/db", "postgresql://user:secret@h:notaport/db", URL_OF_NOBODY])
def test_a_url_that_cannot_be_used_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(StoreUnavailable) as refused:
        OperationsStore.open(url)
    assert "secret" not in str(refused.value)


def test_a_database_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    OperationsStore.open(sqlite_url(tmp_path)).close()
    with sqlite3.connect(sqlite_url(tmp_path)) as raw:
        raw.execute("update schema_version set version = 99")
    raw.close()
    with pytest.raises(NewerStore, match=r"operations\.sqlite: it is of version 99"):
        OperationsStore.open(sqlite_url(tmp_path))


def test_an_older_database_is_migrated_step_by_step_and_keeps_its_rows(tmp_path: Path) -> None:
    store = OperationsStore.open(sqlite_url(tmp_path))
    store.upsert_incidents([made()], T0)
    steps = (*MIGRATIONS, ("alter table spares add column rack text",), ("alter table spares add column lemon text",))
    migrate(store.database, steps)
    migrate(store.database, steps)
    with store.reading() as connection:
        columns = {column["name"] for column in sa.inspect(connection).get_columns("spares")}
        version = connection.exec_driver_sql("select version from schema_version").scalar()
    assert {"rack", "lemon"} <= columns
    assert version == len(MIGRATIONS) + 3
    assert store.incidents() == (made(),)
    store.close()


def test_a_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    store = OperationsStore.open(sqlite_url(tmp_path))
    broken = ("alter table spares add column rack text", "alter table nothing add column x text")
    with pytest.raises(sa.exc.OperationalError):
        migrate(store.database, (*MIGRATIONS, broken))
    with store.reading() as connection:
        columns = {column["name"] for column in sa.inspect(connection).get_columns("spares")}
    assert "rack" not in columns
    store.close()


# Several processes


def _write(path: str, worker: int, barrier: Any) -> None:
    barrier.wait()  # all open the new file in the same moment
    store = OperationsStore.open(path)
    for number in range(40):
        store.upsert_incidents([made(number, members=(f"w{worker}",)), made(1000 * worker + number)], later(number))
        store.note(made(number).id, f"worker {worker}", "x", T0)
    store.allocate_spares(f"act-{worker}", [], 0, T0)
    store.close()


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(2)
    workers = [spawn.Process(target=_write, args=(sqlite_url(tmp_path), worker, barrier)) for worker in (1, 2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(300)
    assert [worker.exitcode for worker in workers] == [0, 0]
    store = OperationsStore.open(sqlite_url(tmp_path), create=False)
    assert len(store.incidents(limit=None)) == 120
    assert {said.by for said in store.remarks(made(39).id)} == {"worker 1", "worker 2"}
    store.close()
