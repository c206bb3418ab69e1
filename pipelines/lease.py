"""Who may ingest: one process at a time, whoever it is. A lease in the operations store decides."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from pipelines.operations_store import OperationsStore

NAME = "ingest"
SECONDS = 30.0
RENEW_SECONDS = 10.0


class Held(RuntimeError):
    """Another process ingests; the message says which."""


@contextmanager
def ingesting(operations: OperationsStore, role: str = "ingest") -> Iterator[None]:
    """Hold the lease, renewed in the background. Raises Held."""
    holder = f"{role}@{socket.gethostname()}:{os.getpid()}"
    lease = operations.acquire_lease(NAME, holder, datetime.now(UTC), SECONDS)
    if lease.holder != holder:
        raise Held(
            f"{lease.holder} ingests already, and only one may; its lease runs out at {lease.expires_at:%H:%M:%S} UTC "
            "unless it renews it"
        )
    done = threading.Event()
    renewing = threading.Thread(target=_renew, args=(operations, holder, done), name="lease", daemon=True)
    renewing.start()
    try:
        yield
    finally:
        done.set()
        renewing.join()
        operations.release_lease(NAME, holder)


def _renew(operations: OperationsStore, holder: str, done: threading.Event) -> None:
    while not done.wait(RENEW_SECONDS):
        operations.renew_lease(NAME, holder, datetime.now(UTC), SECONDS)
