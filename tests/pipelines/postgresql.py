"""A PostgreSQL of the tests' own, from Debian's programs: started where a test first asks, gone with the process.

HOTSPARE_REQUIRE_POSTGRESQL makes a missing one a failure. It has no port: only whoever may read its folder reaches it.
"""

import atexit
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
import sqlalchemy as sa

from pipelines.operations_store import OperationsStore
from pipelines.operations_tables import METADATA

ACCOUNT = "postgres"
READY_SECONDS = 30.0


@contextmanager
def postgresql_store() -> Iterator[OperationsStore]:
    """An operations store in it, with nothing in its tables."""
    opened = OperationsStore.open(_url())
    with opened.writing() as connection:
        for table in reversed(METADATA.sorted_tables):
            if table.name != "schema_version":
                connection.execute(sa.delete(table))
    yield opened
    opened.close()


@cache
def _url() -> str:
    programs = _programs()
    if programs is None:
        if os.environ.get("HOTSPARE_REQUIRE_POSTGRESQL"):
            pytest.fail("PostgreSQL is required and not installed")
        pytest.skip("PostgreSQL is not installed")
    folder = Path(tempfile.mkdtemp(prefix="hotspare-pg-"))  # short: a socket's path has 107 characters at the most
    account = ACCOUNT if os.geteuid() == 0 else None  # it does not run as root
    if account is not None:
        shutil.chown(folder, account)
    data = folder / "data"
    subprocess.run(
        [programs / "initdb", "--pgdata", data, "--auth", "trust", "--username", ACCOUNT, "--no-sync"],
        user=account, cwd=folder, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [programs / "postgres", "-D", data, "-k", folder, "-c", "listen_addresses=", "-c", "fsync=off"],
            user=account, cwd=folder, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
    atexit.register(_ended, server, folder)
    deadline = time.monotonic() + READY_SECONDS
    while not (folder / ".s.PGSQL.5432").exists():
        if server.poll() is not None or time.monotonic() > deadline:
            pytest.fail(f"PostgreSQL does not start:\n{(folder / 'log').read_text()[-2000:]}")
        time.sleep(0.05)
    return f"postgresql://{ACCOUNT}@/postgres?host={folder}"


def _programs() -> Path | None:
    """The newest version's, or those of the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else None if on_path is None else Path(on_path).parent


def _ended(server: "subprocess.Popen[bytes]", folder: Path) -> None:
    server.terminate()
    server.wait(READY_SECONDS)
    shutil.rmtree(folder, ignore_errors=True)
