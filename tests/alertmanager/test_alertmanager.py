"""A real prometheus-alertmanager: one group an incident, and it ends when the incident does."""

import json
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NoReturn

import httpx
import pytest

from pipelines.notify.deliver import deliver
from pipelines.notify.receivers import Alertmanager
from pipelines.notify.settings import NotifySettings
from pipelines.operations_store import OperationsStore
from tests.pipelines.notify.test_page import incident

ROOT = Path(__file__).resolve().parents[2]


def do_without(reason: str) -> NoReturn:
    """CI sets HOTSPARE_REQUIRE_ALERTMANAGER, so that a missing one cannot pass for a green run there."""
    if os.environ.get("HOTSPARE_REQUIRE_ALERTMANAGER") == "1":
        pytest.fail(f"HOTSPARE_REQUIRE_ALERTMANAGER=1, but {reason}")
    pytest.skip(reason)


@dataclass
class Pager:
    """What Alertmanager sends on: one notification a group."""

    got: list[dict[str, Any]] = field(default_factory=list)
    port: int = 0

    def groups(self, status: str) -> list[dict[str, Any]]:
        return [one for one in list(self.got) if one["status"] == status]

    def wait(self, status: str, count: int) -> list[dict[str, Any]]:
        deadline = time.monotonic() + 20
        while len(self.groups(status)) < count and time.monotonic() < deadline:
            time.sleep(0.05)
        return self.groups(status)


@pytest.fixture
def pager() -> Iterator[Pager]:
    kept = Pager()

    class Receive(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            kept.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Receive) as server:
        kept.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield kept
        server.shutdown()
        thread.join()


@pytest.fixture
def alertmanager(tmp_path: Path, pager: Pager) -> Iterator[str]:
    program = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    if program is None:
        do_without("prometheus-alertmanager is not installed")
    shipped = (ROOT / "deploy" / "alertmanager.yml").read_text()
    assert "http://pager.example/hook" in shipped
    config = tmp_path / "alertmanager.yml"
    config.write_text(shipped.replace("http://pager.example/hook", f"http://127.0.0.1:{pager.port}/"))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    options = [
        f"--config.file={config}", f"--storage.path={tmp_path}", f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]  # fmt: skip
    with ExitStack() as stack:
        log = stack.enter_context((tmp_path / "log").open("wb"))
        process = subprocess.Popen([program, *options], stdout=log, stderr=subprocess.STDOUT)
        try:
            url = f"http://127.0.0.1:{port}"
            for _ in range(200):
                try:
                    if httpx.get(f"{url}/-/ready").is_success:
                        break
                except httpx.HTTPError:
                    time.sleep(0.05)
            else:
                do_without(f"Alertmanager does not come up: {(tmp_path / 'log').read_text()[-300:]}")
            yield url
        finally:
            process.terminate()
            process.wait(20)


def test_each_incident_is_one_group_with_its_labels_and_ends_with_it(alertmanager: str, pager: Pager) -> None:
    now = datetime.now(UTC)
    begun = {"starts_at": now - timedelta(seconds=5), "detected_at": now - timedelta(seconds=3)}
    members = tuple(f"n{i:05}/0" for i in range(384))
    cascade = incident(
        id="inc-cascade", cause="power_domain_lost", root_kind="pdu", roots=("pdu-1", "pdu-2"), members=members, **begun
    )
    hostile = incident(id="inc-hostile", roots=('n1"}\n{evil="1/3',), **begun)
    store, settings = OperationsStore.open(":memory:"), NotifySettings(runbooks="https://wiki.example/runbooks")
    receiver = Alertmanager(alertmanager)
    store.upsert_incidents([cascade, hostile], now)
    assert deliver(store, [receiver], settings, datetime.now(UTC)).troubles == ()
    groups = {one["groupLabels"]["incident"]: one for one in pager.wait("firing", 2)}
    assert sorted(groups) == ["inc-cascade", "inc-hostile"]
    alert = groups["inc-cascade"]["alerts"]
    assert len(alert) == 1
    labels = alert[0]["labels"]
    assert (labels["severity"], labels["cause"], labels["domain"]) == ("page", "power_domain_lost", "pdu:pdu-1")
    assert alert[0]["annotations"]["runbook_url"] == "https://wiki.example/runbooks/power_domain_lost.md"
    assert "GPUs: 384" in alert[0]["annotations"]["description"]
    over = datetime.now(UTC)
    ended = incident(**{**vars(cascade), "state": "resolved", "ends_at": over})
    store.upsert_incidents([ended], over)
    assert deliver(store, [receiver], settings, datetime.now(UTC)).told == 1
    resolved = pager.wait("resolved", 1)
    assert [one["groupLabels"]["incident"] for one in resolved] == ["inc-cascade"]
    store.close()


def test_an_alertmanager_that_is_away_is_a_trouble_in_one_line() -> None:
    now = datetime.now(UTC)
    store = OperationsStore.open(":memory:")
    store.upsert_incidents([incident(detected_at=now)], now)
    done = deliver(store, [Alertmanager("http://127.0.0.1:9", timeout_seconds=1)], NotifySettings(), now)
    assert done.told == 0
    assert len(done.troubles) == 1
    assert "\n" not in done.troubles[0]
    store.close()
