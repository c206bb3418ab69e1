"""POST /api/events of `hotspare serve`: a deploy pipeline says what it did, as it would to Grafana."""

import errno
import hmac
from datetime import UTC, datetime, timedelta

import msgspec
import structlog
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pipelines.outside_events import add, stored
from pipelines.telemetry_store import StoreUnavailable, TelemetryStore
from pipelines.web.settings import TOKEN_VARIABLE, WebSettings
from schemas.formats.decoded import Surroundings, Unreadable
from schemas.formats.outside_events import decode

log = structlog.get_logger()
SHOWN = timedelta(days=7)
SCHEME = "Bearer "


def event_routes(settings: WebSettings, store: TelemetryStore) -> list[Route]:
    """GET: those of the last week and of the week ahead. POST: one annotation or a list of them, JSON, with the token
    of the settings.

    The body is read up to its limit and no further; what is refused is said in one line; nothing is half written.
    """

    async def take(request: Request) -> Response:
        if refusal := _refused(request, settings):
            return refusal
        body = await _body(request, settings.body_bytes_maximum)
        if body is None:
            return _said(413, f"the body is larger than {settings.body_bytes_maximum} bytes (web.body_bytes_maximum)")
        try:
            done = await run_in_threadpool(_taken, body, store, settings.body_bytes_maximum)
        except Unreadable as error:
            return _said(400, str(error))
        except StoreUnavailable as error:
            return _said(503, str(error), {"Retry-After": "5"})
        return JSONResponse({"message": "added" if done else "known already", "added": done})

    def show(_: Request) -> Response:
        now = datetime.now(UTC)
        try:
            rows = stored(store, now - SHOWN, now + SHOWN, writes=True) if store.path.exists() else None
        except StoreUnavailable as error:
            return _said(503, str(error), {"Retry-After": "5"})
        document = {"events": [] if rows is None else rows.to_dicts()}
        return Response(msgspec.json.encode(document), media_type="application/json")

    return [Route("/api/events", show, methods=["GET"]), Route("/api/events", take, methods=["POST"])]


def _taken(body: bytes, store: TelemetryStore, bytes_maximum: int) -> int:
    """How many were new. Raises Unreadable where one of them cannot be taken, StoreUnavailable."""
    now = datetime.now(UTC)
    decoded = decode(body, Surroundings(received_at=now, bytes_maximum=bytes_maximum))
    rows = decoded.tables.get("outside_event")
    if rows is None or decoded.rejects.height:
        raise Unreadable("; ".join(decoded.rejects["reason"].head(5)) or "no event in it")
    done = add(store, rows, now, whole=True)
    if done.refused.height:
        raise Unreadable(f"{done.refused['reason'][0]}; `hotspare schema outside_event` shows the rules")
    log.info("outside_events", added=done.new, kinds=rows["kind"].unique().sort().to_list()[:5])
    return done.new


def _refused(request: Request, settings: WebSettings) -> Response | None:
    try:
        token = settings.token()
    except OSError as error:
        if error.errno == errno.EILSEQ:
            return _said(503, "nobody may write here: the file of web.token_file is not UTF-8 text")
        token = None
    if token is None:
        return _said(403, f"nobody may write here: web.token_file or {TOKEN_VARIABLE} has no token of 16 characters")
    given = request.headers.get("authorization", "")
    if not hmac.compare_digest(given.encode(), f"{SCHEME}{token}".encode()):
        return _said(401, "the bearer token is missing or wrong", {"WWW-Authenticate": "Bearer"})
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return _said(415, "send application/json")
    return None


async def _body(request: Request, bytes_maximum: int) -> bytes | None:
    """None: larger than that. A length that is announced is not believed."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > bytes_maximum:
            return None
        parts.append(part)
    return b"".join(parts)


def _said(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"message": message}, status_code=status, headers=headers)
