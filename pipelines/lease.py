"""Who may ingest: one process at a time, whoever it is. A lease in the operations store decides."""

import os
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import structlog

from pipelines.operations_database import StoreUnavailable
from pipelines.operations_store import OperationsStore

log = structlog.get_logger()
NAME = "ingest"
SECONDS = 30.0
RENEW_SECONDS = 10.0
HOLDER = re.compile(r".*@(?P<host>.+):(?P<process>\d+)\.\d+")


class Held(RuntimeError):
    """Another process ingests; the message says which."""


@contextmanager
def ingesting(operations: OperationsStore, role: str = "ingest") -> Iterator[None]:
    """Hold the lease, renewed in the background. Raises Held."""
    holder = f"{role}@{socket.gethostname()}:{os.getpid()}.{threading.get_native_id()}"
    lease = operations.acquire_lease(NAME, holder, datetime.now(UTC), SECONDS)
    if lease.holder != holder and _is_dead(lease.holder):
        operations.release_lease(NAME, lease.holder)
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


def holder_of(operations: OperationsStore) -> str | None:
    """Who ingests now, if somebody does; a process of this machine that is no more does not."""
    lease = operations.lease(NAME)
    if lease is None or lease.expires_at <= datetime.now(UTC) or _is_dead(lease.holder):
        return None
    return lease.holder


def _is_dead(holder: str) -> bool:
    """Whether it was a process of this machine that is no more. Elsewhere only time can tell."""
    found = HOLDER.fullmatch(holder)
    if found is None or found["host"] != socket.gethostname():
        return False
    try:
        os.kill(int(found["process"]), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _renew(operations: OperationsStore, holder: str, done: threading.Event) -> None:
    """A renewal that fails is tried again until the lease has run out. Whoever takes it over then is safe from us: the
    telemetry store refuses a flush of a stream that somebody else has written.
    """
    while not done.wait(RENEW_SECONDS):
        try:
            if not operations.renew_lease(NAME, holder, datetime.now(UTC), SECONDS):
                log.warning("lease_lost", holder=holder)
                return
        except StoreUnavailable as error:
            log.warning("lease_not_renewed", holder=holder, reason=str(error))
