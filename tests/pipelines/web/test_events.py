"""POST /api/events: who may, how much, and that what is refused leaves nothing behind."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import msgspec
import pytest
from starlette.applications import Starlette

from pipelines.telemetry_store import TelemetryStore
from pipelines.web.events import event_routes
from pipelines.web.settings import TOKEN_VARIABLE, WebSettings

TOKEN = "a-token-of-the-tests-0123"
GRAFANA = {"time": 1772442660000, "timeEnd": 1772443000000, "tags": ["deploy", "node:n00005"], "text": "trainer 2.3"}
HEADERS = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}


class Client:
    """Asks the routes as a program would, without a socket."""

    def __init__(self, settings: WebSettings, store: Path) -> None:
        self.app = Starlette(routes=event_routes(settings, TelemetryStore(store)))

    def ask(self, method: str, content: bytes = b"", headers: dict[str, str] | None = None) -> httpx.Response:
        async def asked() -> httpx.Response:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://hotspare") as client:
                return await client.request(method, "/api/events", content=content, headers=headers)

        return asyncio.run(asked())


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    settings = WebSettings(token_file=file, body_bytes_maximum=1000)
    return Client(settings, tmp_path / "t.duckdb")


def post(client: Client, body: object, **headers: str) -> tuple[int, str]:
    content = body if isinstance(body, bytes) else msgspec.json.encode(body)
    answer = client.ask("POST", content, {**HEADERS, **headers})
    assert TOKEN not in answer.text
    return answer.status_code, answer.json()["message"]


def events(client: Client) -> list[dict[str, object]]:
    found: list[dict[str, object]] = client.ask("GET").json()["events"]
    return found


def test_an_annotation_as_for_grafana_is_taken_once_and_shown(client: Client) -> None:
    assert post(client, {"tags": GRAFANA["tags"], "text": "trainer 2.3"}) == (200, "added")  # of now
    [found] = events(client)
    assert (found["kind"], found["title"], found["touches"]) == ("deploy", "trainer 2.3", ["node=n00005"])
    assert [post(client, GRAFANA), post(client, [GRAFANA, GRAFANA])] == [(200, "added"), (200, "known already")]


@pytest.mark.parametrize("header", ["", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x"])
def test_without_the_token_nothing_is_taken(client: Client, header: str) -> None:
    status, said = post(client, GRAFANA | {"time": None}, Authorization=header)
    assert (status, said) == (401, "the bearer token is missing or wrong")
    assert events(client) == []


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"{" + b" " * 1000, 413, "larger than 1000 bytes"),
        (b"{nonsense", 400, "no JSON"),
        (b"[1]", 400, "an event is an object"),
        ([GRAFANA | {"time": None}, {"tags": ["x"]}], 400, "2: no text or title"),
        ({"text": "x", "time": "yesterday"}, 400, "is none"),
        ({"text": "x", "time": "2026-03-02T09:00:00Z", "timeEnd": "2026-03-02T08:00:00Z"}, 400, "ends before"),
    ],
)
def test_what_is_refused_is_told_in_one_line_and_leaves_nothing(
    client: Client, body: object, status: int, said: str
) -> None:
    answered, why = post(client, body)
    assert (answered, said in why, "\n" in why) == (status, True, False)
    assert events(client) == []


def test_another_kind_of_content_is_refused(client: Client) -> None:
    assert post(client, GRAFANA, **{"Content-Type": "text/plain"})[0] == 415


@pytest.mark.parametrize("token", ["", "short"])
def test_where_no_token_is_set_nobody_may_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, token)
    client = Client(WebSettings(), tmp_path / "t.duckdb")
    status, said = post(client, GRAFANA, Authorization=f"Bearer {token}")
    assert status == 403
    assert TOKEN_VARIABLE in said
    assert not (tmp_path / "t.duckdb").exists()


def test_a_token_file_that_is_no_text_is_refused_in_one_line(client: Client, tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"\xff" * 32)
    assert post(client, GRAFANA) == (503, "nobody may write here: the file of web.token_file is not UTF-8 text")
    assert events(client) == []


def test_what_is_planned_for_the_week_ahead_is_shown_too(client: Client) -> None:
    now = datetime.now(UTC)
    planned = [{"time": int((now + timedelta(days=days)).timestamp() * 1000), "text": str(days)} for days in (6, 8)]
    assert post(client, planned) == (200, "added")
    assert [one["title"] for one in events(client)] == ["6"]
