"""OTLP metrics in JSON to gpu (otlp_metrics.py says what is read): one export request, or one a line."""

from schemas.formats import payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable, rejects_frame
from schemas.formats.json_values import documents
from schemas.formats.otlp_metrics import rows

NAME = "OTLP JSON"
VERSIONS = "OTLP 1.x, and 0.x with instrumentationLibraryMetrics"
LEAVES = "histograms, summaries, metrics but DCGM_* and hw.* of a GPU"


def looks_like(head: bytes, name: str) -> bool:  # noqa: ARG001  every format answers to the same question
    return '"resourceMetrics"' in payload.head_text(head)


def decode(data: bytes, surroundings: Surroundings) -> Decoded:
    """Rows of gpu at the times of the data points. A line that is no request costs only itself."""
    rejects: list[Reject] = []
    requests = []
    for at, item in documents(data, surroundings, NAME, rejects):
        if isinstance(item, dict) and isinstance(item.get("resourceMetrics"), list):
            requests += item["resourceMetrics"]
        else:
            rejects.append(Reject(rule="message|object", reason=f"message {at}: no resourceMetrics", place=at))
    if not requests and rejects:
        raise Unreadable(f"{NAME}: {rejects[0].reason}")
    decoded = rows({"resourceMetrics": requests}, surroundings, NAME)
    return Decoded(
        tables=decoded.tables, missing=decoded.missing,
        rejects=rejects_frame(rejects, "gpu").vstack(decoded.rejects) if rejects else decoded.rejects,
    )  # fmt: skip
