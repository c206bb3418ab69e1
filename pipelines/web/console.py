"""The web console of `hotspare serve`: incidents and actions on one page, health for probes, metrics for scrapers."""

from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any

import msgspec
from jinja2 import Environment
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from pipelines.operations_store import OperationsStore
from pipelines.recovery.ledger import Ledger
from pipelines.serve.service import OPEN, Figures
from pipelines.web.documents import figures_document, incident_document
from pipelines.web.metrics import metrics_text
from pipelines.wording import about, stands
from schemas.incident import State

RESOLVED: tuple[State, ...] = ("resolved",)
SHOWN_MAXIMUM = 200


def console_app(operations: OperationsStore, figures: Callable[[], Figures], more: Sequence[Route] = ()) -> Starlette:
    """more: routes beside those that only show."""
    text = (files("pipelines") / "web" / "console.html").read_text("utf-8")
    page = Environment(autoescape=True).from_string(text, globals={"stands": stands, "about": about})

    def index(_: Request) -> Response:
        incidents = operations.incidents(states=OPEN, limit=SHOWN_MAXIMUM)
        recent = operations.incidents(states=RESOLVED, limit=50)
        actions = Ledger(operations).actions(limit=100)
        stands = figures()
        shown = page.render(
            incidents=incidents, recent=recent, actions=actions, tally=stands.tally, trouble=stands.trouble
        )
        return HTMLResponse(shown)

    def healthz(_: Request) -> Response:
        alive = figures().alive
        return JSONResponse({"alive": alive}, status_code=200 if alive else 503)

    def readyz(_: Request) -> Response:
        stands = figures()
        document = {"ready": stands.ready, "trouble": stands.trouble}
        return JSONResponse(document, status_code=200 if stands.ready else 503)

    def metrics(_: Request) -> Response:
        text = metrics_text(figures(), operations)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    def incidents(request: Request) -> Response:
        """What is open, newest first, and with ?resolved=N the last N that are not; how serve does beside it."""
        asked = request.query_params.get("resolved", "0")
        limit = min(int(asked), SHOWN_MAXIMUM) if asked.isdigit() else 0
        found = operations.incidents(states=OPEN, limit=SHOWN_MAXIMUM)
        found += operations.incidents(states=RESOLVED, limit=limit) if limit else ()
        document: dict[str, Any] = {
            "serve": figures_document(figures()), "incidents": [incident_document(one) for one in found],
        }  # fmt: skip
        return Response(msgspec.json.encode(document), media_type="application/json")

    routes = [
        Route("/", index), Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics),
        Route("/api/incidents", incidents), *more,
    ]  # fmt: skip
    return Starlette(routes=routes)
