"""What `hotspare serve` says to Prometheus: text exposition format 0.0.4."""

from collections import Counter
from collections.abc import Iterable, Mapping

from pipelines.operations_store import OperationsStore
from pipelines.serve.service import OPEN, Figures

QUANTILES = (0.5, 0.99)


def metrics_text(figures: Figures, operations: OperationsStore) -> str:
    """Tables, lanes and causes are our own words, so nothing needs escaping."""
    tally, lanes = figures.tally, figures.lanes
    families = [
        _family("rows_total", "counter", "Rows taken in.", _labelled("table", tally.rows)),
        _family("findings_total", "counter", "Statements of detectors.", [("", tally.findings)]),
        _family("quarantined_total", "counter", "Rows and messages refused.", [("", tally.quarantined)]),
        _family("late_total", "counter", "Rows too late to be judged.", [("", tally.late)]),
        _family("steps_total", "counter", "Steps of the engine.", [("", figures.steps)]),
        _lane_family("lane_up", "gauge", "1 while the lane reads.", {n: int(not f.trouble) for n, f in lanes.items()}),
        _lane_family("lane_lag_messages", "gauge", "Unread on the brokers.", {n: f.lag for n, f in lanes.items()}),
        _lane_family("lane_paused", "gauge", "1 while held back.", {n: int(f.paused) for n, f in lanes.items()}),
        _lane_family("lane_messages_total", "counter", "Messages read.", {n: f.messages for n, f in lanes.items()}),
        _lane_family("lane_reconnects_total", "counter", "Times the brokers were away.",
                     {n: f.reconnects for n, f in lanes.items()}),
        _lane_family("lane_waiting_rows", "gauge", "Rows read that wait for the engine.", figures.waiting_rows),
        _lane_family("lane_watermark_timestamp_seconds", "gauge", "Event time up to which all has come.",
                     {n: f.mark.now.timestamp() for n, f in lanes.items() if f.mark.now is not None}),
        _family("unwritten_rows", "gauge", "Rows judged that wait for the telemetry file.",
                [("", figures.unwritten_rows)]),
        _family("store_held", "gauge", "1 while another process holds the telemetry file.",
                [("", int(figures.held is not None))]),
        _family("ahead_told_total", "counter", "Incidents told ahead of the engine.", [("", figures.told_ahead)]),
        _family("ahead_withdrawn_total", "counter", "Of those, closed again as part of another.",
                [("", figures.withdrawn)]),
    ]  # fmt: skip
    if tally.now is not None and figures.behind_seconds is not None:
        families += [
            _family("watermark_timestamp_seconds", "gauge", "Event time up to which all is judged.",
                    [("", tally.now.timestamp())]),
            _family("behind_seconds", "gauge", "How far that lies behind the clock.", [("", figures.behind_seconds)]),
        ]  # fmt: skip
    if figures.latencies_seconds:
        text = "From the receipt of an event to the incident and its action requests."
        families.append(_summary("ahead_seconds", text, figures.latencies_seconds, figures.told_ahead))
    if figures.step_latencies_seconds:
        text = "From the receipt of the first row of a step of the engine to the incidents and action requests."
        families.append(_summary("step_seconds", text, figures.step_latencies_seconds, figures.steps))
    families.append(_incidents(operations))
    return "\n".join(families) + "\n"


def _family(name: str, kind: str, text: str, samples: Iterable[tuple[str, float]]) -> str:
    full = f"hotspare_{name}"
    return "\n".join(
        [f"# HELP {full} {text}", f"# TYPE {full} {kind}", *(f"{full}{label} {value!r}" for label, value in samples)]
    )


def _lane_family(name: str, kind: str, text: str, values: Mapping[str, float]) -> str:
    return _family(name, kind, text, _labelled("lane", values))


def _labelled(label: str, values: Mapping[str, float]) -> list[tuple[str, float]]:
    return [(f'{{{label}="{name}"}}', value) for name, value in sorted(values.items())]


def _summary(name: str, text: str, values: Iterable[float], count: int) -> str:
    """Quantiles over the last ones; the count is of all."""
    full, ordered = f"hotspare_{name}", sorted(values)
    lines = [f"# HELP {full} {text}", f"# TYPE {full} summary"]
    for quantile in QUANTILES:
        place = min(len(ordered) - 1, int(quantile * len(ordered)))
        lines.append(f'{full}{{quantile="{quantile}"}} {ordered[place]!r}')
    return "\n".join([*lines, f"{full}_count {count}"])


def _incidents(operations: OperationsStore) -> str:
    counts = Counter((one.cause, one.severity) for one in operations.incidents(states=OPEN, limit=None))
    samples = [
        (f'{{cause="{cause}",severity="{severity}"}}', count) for (cause, severity), count in sorted(counts.items())
    ]
    return _family("incidents", "gauge", "Incidents that are not resolved.", samples)
