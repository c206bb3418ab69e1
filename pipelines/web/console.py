"""The web console of `hotspare serve`: incidents and actions on one page, health for probes, metrics for scrapers."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files

from jinja2 import Environment
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from pipelines.operations_store import OperationsStore
from pipelines.recovery.ledger import Ledger
from pipelines.stream import Tally
from schemas.incident import State

OPEN: tuple[State, ...] = ("suspect", "firing", "acknowledged", "mitigating")


@dataclass(frozen=True)
class Serving:
    """What the loop says of itself. tally: as of the last batch. trouble: why it does not read, if it does not."""

    tally: Callable[[], Tally]
    trouble: Callable[[], str | None]
    alive: Callable[[], bool]


def console_app(operations: OperationsStore, serving: Serving) -> Starlette:
    page = Environment(autoescape=True).from_string((files("pipelines") / "web" / "console.html").read_text("utf-8"))

    resolved: tuple[State, ...] = ("resolved",)

    def index(_: Request) -> Response:
        incidents = operations.incidents(states=OPEN, limit=200)
        recent = operations.incidents(states=resolved, limit=50)
        actions = Ledger(operations).actions(limit=100)
        text = page.render(
            incidents=incidents, recent=recent, actions=actions, tally=serving.tally(), trouble=serving.trouble()
        )
        return HTMLResponse(text)

    def healthz(_: Request) -> Response:
        return JSONResponse({"alive": serving.alive()}, status_code=200 if serving.alive() else 503)

    def readyz(_: Request) -> Response:
        trouble = serving.trouble()
        return JSONResponse({"ready": trouble is None, "trouble": trouble}, status_code=503 if trouble else 200)

    def metrics(_: Request) -> Response:
        return PlainTextResponse(
            metrics_text(serving.tally(), operations), media_type="text/plain; version=0.0.4; charset=utf-8"
        )

    routes = [Route("/", index), Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)]
    return Starlette(routes=routes)


def metrics_text(tally: Tally, operations: OperationsStore) -> str:
    """Prometheus text format. Table and cause names are our own words, so nothing needs escaping."""
    lines = ["# TYPE hotspare_rows_total counter"]
    lines += [f'hotspare_rows_total{{table="{name}"}} {rows}' for name, rows in sorted(tally.rows.items())]
    for name, value in (
        ("findings_total", tally.findings), ("quarantined_total", tally.quarantined), ("late_total", tally.late)
    ):  # fmt: skip
        lines += [f"# TYPE hotspare_{name} counter", f"hotspare_{name} {value}"]
    if tally.now is not None:
        lines += [
            "# TYPE hotspare_watermark_timestamp_seconds gauge",
            f"hotspare_watermark_timestamp_seconds {tally.now.timestamp():.6f}",
        ]
    lines.append("# TYPE hotspare_incidents gauge")
    counts: dict[tuple[str, str], int] = {}
    for incident in operations.incidents(states=OPEN, limit=None):
        counts[incident.cause, incident.severity] = counts.get((incident.cause, incident.severity), 0) + 1
    lines += [
        f'hotspare_incidents{{cause="{cause}",severity="{severity}"}} {count}'
        for (cause, severity), count in sorted(counts.items())
    ]
    return "\n".join(lines) + "\n"
