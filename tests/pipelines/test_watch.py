"""`hotspare incidents list --watch` without a terminal: a line for each change, from a server that comes and goes."""

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import msgspec
import pytest

from pipelines.cli.output import Refused
from pipelines.cli.watch import watch_incidents

MOMENT = datetime(2026, 3, 2, 9, 3, tzinfo=UTC)
SERVE = {
    "ready": True, "trouble": None, "held": None, "now": MOMENT, "behind_seconds": 1.0, "rows": 5,
    "unwritten_rows": 0, "lag_messages": {},
}  # fmt: skip


def incident(state: str, cause: str = "power_domain_lost", name: str = "inc-1576237eea") -> dict[str, Any]:
    return {
        "id": name, "cause": cause, "severity": "page", "state": state, "root": {"kind": "pdu", "ids": ["pdu-[000]"]},
        "members": ["n00000/0", "n00000/1"], "starts_at": MOMENT, "detected_at": MOMENT, "ends_at": None,
    }  # fmt: skip


class Scripted(HTTPServer):
    """Answers one document after the other; None is a server in trouble."""

    script: list[dict[str, Any] | None]


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Scripted)
        document = self.server.script.pop(0)
        self.send_response(503 if document is None else 200)
        self.end_headers()
        self.wfile.write(msgspec.json.encode(document))

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Scripted]:
    with Scripted(("127.0.0.1", 0), Handler) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def lines(server: Scripted, capsys: Any, *incidents: list[dict[str, Any]] | None, **options: Any) -> list[str]:
    server.script = [None if one is None else {"serve": SERVE, "incidents": one} for one in incidents]

    def sleep(_: float) -> None:
        if not server.script:
            raise KeyboardInterrupt
        time.sleep(0)

    chosen = {"states": (), "causes": (), "as_json": False, **options}
    assert watch_incidents(f"http://127.0.0.1:{server.server_port}", sleep=sleep, **chosen) == 0
    said: list[str] = capsys.readouterr().out.splitlines()
    return said


def test_a_line_for_each_change_and_none_for_what_stays(server: Scripted, capsys: Any) -> None:
    said = lines(server, capsys, [], [incident("firing")], [incident("firing")], [incident("acknowledged")])
    assert ["firing" in line for line in said] == [True, False]
    assert "inc-1576237eea" in said[0]
    assert "pdu pdu-[000]  2 GPUs" in said[0]
    assert "acknowledged" in said[1]


def test_only_what_was_asked_for(server: Scripted, capsys: Any) -> None:
    both = [incident("firing"), incident("firing", "gpu_memory", "inc-2")]
    assert len(lines(server, capsys, both, causes=("gpu_memory",))) == 1
    assert lines(server, capsys, both, states=("resolved",)) == []


def test_a_server_that_goes_away_is_said_once_and_waited_for(server: Scripted, capsys: Any) -> None:
    said = lines(server, capsys, [], None, None, [incident("firing")])
    assert len(said) == 3
    assert "is `hotspare serve` running there?" in said[0]
    assert said[1] == "serve: reads again"


def test_json_is_one_object_a_line(server: Scripted, capsys: Any) -> None:
    (line,) = lines(server, capsys, [incident("firing")], as_json=True)
    assert msgspec.json.decode(line)["root"] == {"kind": "pdu", "ids": ["pdu-[000]"]}


def test_nobody_there_is_refused_at_once() -> None:
    with pytest.raises(Refused, match="hotspare serve"):
        watch_incidents("http://127.0.0.1:9", (), (), as_json=False)


def test_somebody_else_there_is_refused(server: Scripted) -> None:
    server.script = [{"hello": 1}]
    with pytest.raises(Refused, match="not `hotspare serve`"):
        watch_incidents(f"http://127.0.0.1:{server.server_port}", (), (), as_json=False)
