"""Executors that speak HTTP, against a server of our own that behaves badly when told to."""

import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from pipelines.recovery.executors.redfish import RedfishExecutor
from pipelines.recovery.executors.webhook import WebhookExecutor
from pipelines.signed_post import SignedPost
from schemas.action import ActionRequest


@dataclass
class Server:
    """answers: (status, body) in turn, the last for ever; "hang" sends nothing back."""

    answers: list[Any] = field(default_factory=lambda: [(204, b"")])
    asked: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    address: str = ""
    done: threading.Event = field(default_factory=threading.Event)

    def answer(self) -> Any:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture
def server() -> Iterator[Server]:
    kept = Server()

    class Receive(BaseHTTPRequestHandler):
        def _take(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            kept.asked.append((self.command, self.path, dict(self.headers), body))
            answer = kept.answer()
            if answer == "hang":
                kept.done.wait(5)
                return
            self.send_response(answer[0])
            self.send_header("Content-Length", str(len(answer[1])))
            self.end_headers()
            self.wfile.write(answer[1])

        do_POST = do_PATCH = _take  # noqa: N815 - the names that http.server looks for

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Receive) as running:
        kept.address = f"http://127.0.0.1:{running.server_address[1]}"
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield kept
        kept.done.set()
        running.shutdown()
        thread.join()


def ask(
    kind: Any = "drain_node", target: str = "n00001", target_kind: str = "node", **parameters: Any
) -> ActionRequest:
    return ActionRequest(
        id="act-1", incident="inc-1", kind=kind, target=target, parameters={"target_kind": target_kind, **parameters},
        requested_at=datetime(2026, 3, 1, tzinfo=UTC), reason="because",
    )  # fmt: skip


def webhook(server: Server, **changes: Any) -> WebhookExecutor:
    values: dict[str, Any] = {
        "url": f"{server.address}/hook", "secret": b"shared", "timeout_seconds": 0.5, "clock": lambda: 1000.0,
        "sleep": lambda _: None,
    }  # fmt: skip
    return WebhookExecutor(SignedPost(**{**values, **changes}))


def test_an_action_is_posted_once_signed_and_with_its_own_key(server: Server) -> None:
    hostile = "n1'; $(reboot)\n\u202e"
    assert webhook(server).apply(ask(target=hostile)).done
    ((_, path, headers, body),) = server.asked
    expected = hmac.new(b"shared", b"1000." + body, hashlib.sha256).hexdigest()
    assert (path, headers["X-Hotspare-Signature"]) == ("/hook", f"t=1000,v1={expected}")
    assert headers["Idempotency-Key"] == "act-1"
    assert json.loads(body)["target"] == hostile


@pytest.mark.parametrize(
    ("answers", "done", "recoverable", "asked"),
    [
        ([(200, b'{"outcome": "done", "detail": "drained"}')], True, False, 1),
        ([(200, b'{"outcome": "failed", "detail": "busy"}')], False, False, 1),
        ([(200, b"<html>it works</html>")], False, False, 1),  # nonsense is not done
        ([(200, b'{"outcome": "maybe"}')], False, False, 1),
        ([(503, b""), (429, b""), (204, b"")], True, False, 3),
        ([(503, b"")], False, True, 3),
        ([(500, b"boom")], False, False, 1),  # it may have acted: not again
        ([(302, b"")], False, False, 1),
        (["hang"], False, False, 1),
    ],
)
def test_only_a_clear_answer_is_done_and_only_what_cannot_have_acted_is_tried_again(
    server: Server, answers: list[Any], asked: int, *, done: bool, recoverable: bool
) -> None:
    server.answers = answers
    outcome = webhook(server).apply(ask())
    assert (outcome.done, outcome.recoverable, len(server.asked)) == (done, recoverable, asked)
    assert "\n" not in outcome.detail


def test_a_receiver_that_nobody_listens_at_changes_nothing_and_may_be_tried_again() -> None:
    post = SignedPost(url="http://127.0.0.1:9/hook", timeout_seconds=0.5, sleep=lambda _: None)
    outcome = WebhookExecutor(post).apply(ask())
    assert (outcome.done, outcome.recoverable) == (False, True)


@pytest.mark.parametrize(
    "broken",
    [
        {"url": "http://n..1/hook"}, {"url": f"http://{'n' * 64}/hook"}, {"url": "http://[::1"},
        {"url": "https://127.0.0.1:9/hook", "ca_file": "/nowhere/ca.pem"},
    ],
    ids=["empty label", "label too long", "no address", "no certificates"],
)  # fmt: skip
def test_what_is_no_address_is_an_answer_and_no_end_of_recovery(broken: dict[str, Any]) -> None:
    outcome = WebhookExecutor(SignedPost(timeout_seconds=0.5, sleep=lambda _: None, **broken)).apply(ask())
    assert (outcome.done, outcome.recoverable) == (False, True)


@pytest.mark.parametrize("node", ["n..1", "n" * 63, "xn--a"])
def test_a_node_that_is_no_host_fails_and_does_not_end_recovery(node: str) -> None:
    controllers = RedfishExecutor(address="http://{node}-bmc", username="u", password="x", timeout_seconds=0.5)
    outcome = controllers.apply(ask("cap_power", node))
    assert (outcome.done, outcome.recoverable) == (False, False)
    assert outcome.detail.startswith("0 of 1 nodes")


def test_certificates_that_cannot_be_read_shut_nothing_down_and_may_be_tried_again(server: Server) -> None:
    controllers = RedfishExecutor(address=server.address, username="u", password="x", ca_file="/nowhere/ca.pem")
    outcome = controllers.apply(ask("staged_shutdown", "cdu-0", "cdu", stages=[["n00001/0"]]))
    assert (outcome.recoverable, server.asked) == (True, [])
    assert "/nowhere/ca.pem" in outcome.detail


def test_the_secret_is_not_shown() -> None:
    assert "shared" not in repr(SignedPost(url="http://x", secret=b"shared"))
    assert "hidden" not in repr(RedfishExecutor(address="http://x", username="u", password="hidden"))


# Redfish


def redfish(server: Server, slept: list[float] | None = None) -> RedfishExecutor:
    pauses = [] if slept is None else slept
    return RedfishExecutor(
        address=f"{server.address}/{{node}}", username="ops", password="x", timeout_seconds=0.5, sleep=pauses.append
    )


def test_a_node_is_capped_at_a_share_of_its_limit(server: Server) -> None:
    outcome = redfish(server).apply(ask("cap_power", "n00001/3", "gpu", share_of_limit=0.7))
    ((method, path, headers, body),) = server.asked
    assert (outcome.done, method, path) == (True, "PATCH", "/n00001/redfish/v1/Chassis/1/Power")
    assert json.loads(body) == {"PowerControl": [{"PowerLimit": {"LimitInWatts": 7140}}]}
    assert headers["Authorization"].startswith("Basic ")


def test_a_shutdown_goes_stage_by_stage(server: Server) -> None:
    slept: list[float] = []
    stages = [["n1/0", "n1/1", "n2/0"], ["n3/0"]]
    assert redfish(server, slept).apply(ask("staged_shutdown", "cdu-0", "cdu", stages=stages)).done
    assert [path.split("/")[1] for _, path, _, _ in server.asked] == ["n1", "n2", "n3"]
    assert {json.loads(body)["ResetType"] for _, _, _, body in server.asked} == {"GracefulShutdown"}
    assert slept == [2.0]


def test_a_shutdown_that_half_succeeds_says_so_stops_and_is_not_done_again(server: Server) -> None:
    server.answers = [(204, b""), (500, b""), (204, b"")]
    stages = [["n1/0", "n2/0"], ["n3/0"]]
    outcome = redfish(server).apply(ask("staged_shutdown", "cdu-0", "cdu", stages=stages))
    assert (outcome.done, outcome.recoverable) == (False, False)
    assert outcome.detail.startswith("1 of 3 nodes; ")
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("answer", "done"),
    [
        ((204, b""), True),
        ((200, b'{"@odata.id": "/redfish/v1/Chassis/1/Power"}'), True),
        ((202, b'{"@odata.type": "#Task.v1_4_3.Task", "TaskState": "New"}'), True),
        ((200, b"<html>please log in</html>"), False),
        ((200, b'{"error": {"code": "Base.1.12.GeneralError", "message": "see Resolution"}}'), False),
        ((200, b"[]"), False),
        ((401, b""), False),
        ((503, b""), False),
        ("hang", False),
    ],
)
def test_only_a_controller_that_took_it_counts_and_nothing_is_sent_twice(
    server: Server, answer: Any, *, done: bool
) -> None:
    server.answers = [answer]
    outcome = redfish(server).apply(ask("cap_power", "n1", "node"))
    assert (outcome.done, outcome.recoverable, len(server.asked)) == (done, False, 1)
    assert "\n" not in outcome.detail


@pytest.mark.parametrize("node", ["evil.example/x?", "n1@evil", "", "../n1", "n1#"])
def test_a_hostile_node_reaches_no_address(server: Server, node: str) -> None:
    outcome = redfish(server).apply(ask("cap_power", "cdu-0", "cdu", nodes=["n1", node]))
    assert (outcome.done, server.asked) == (False, [])
