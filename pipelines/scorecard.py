"""A scorecard as a page: what was run, who did how well, what the numbers mean, and what went wrong."""

from collections.abc import Sequence
from datetime import datetime

from pipelines.scoring import HOTSPARE, Result, SuiteResult
from replay.score import CauseScore

INTRODUCTION = """\
Written by `hotspare score`; do not edit. Everything here was simulated: no public labelled data set of a whole cluster
exists. The rows are the same for everybody, and nobody sees the truth before it has spoken.

An event is found when the first page or ticket that names a right root comes within 60 s of its onset, or within the
longer time that its suite gives a slow fault. Nothing is adjusted by points: a later hit does not repair an early miss.
Right root first: of those found. False: what no fault explains, even while another fault is on; more incidents on the
same fault are repeats. Rates are for a day of 24,576 GPUs with the upper 95 % bound of Garwood; where faults come every
few minutes they say little, so read them at `healthy-weird`. VUS-PR is of the highest score of all findings, second by
second, against the time in which a fault ought to be news; null shows what chance gives. Before hard failure: of the
faults that end in one, the share named before it. p50 and p95 are from the true onset to detection; abrupt: the same
without the faults that have a longer time or a hard failure to come, as they grow or only their repetition tells them.
"""
HEADS = (
    "who", "found", "precision", "recall", "right root first", "right cause", "p50 s", "p95 s", "abrupt p50 s",
    "abrupt p95 s", "repeats", "false pages a day", "false tickets a day", "before hard failure", "VUS-PR",
    "CPU ms a second",
)  # fmt: skip
CAUSE_HEADS = (
    "cause", "faults", "found", "late", "right cause", "right root first", "p50 s", "p95 s", "incidents a fault",
    "lead s",
)  # fmt: skip


def as_markdown(results: Sequence[SuiteResult], written_at: datetime) -> str:
    """The whole page."""
    parts = [f"# Scorecard\n\n{written_at:%Y-%m-%d %H:%M} UTC\n", INTRODUCTION]
    for result in results:
        parts += _suite(result)
    return "\n".join(parts)


def _suite(result: SuiteResult) -> list[str]:
    suite = result.suite
    gpu_hours = result.gpus * result.stream_seconds / 3600
    size = f"{len(result.seeds)} runs of {result.gpus:,} GPUs, {result.stream_seconds:,.0f} s in all"
    seeds = f"{result.split.capitalize()} seeds: {', '.join(map(str, result.seeds))}."
    lines = [
        f"## {suite.name}\n",
        f"{suite.description} {size} ({gpu_hours:,.0f} GPU-hours). {seeds} {_sampling(result)}\n",
        table_of(HEADS, rows(result)),
    ]
    causes = cause_rows(result)
    if causes:
        lines += [
            "Cause by cause, hotspare:\n",
            table_of(CAUSE_HEADS, causes),
        ]
    if result.misses:
        lines += ["What hotspare got wrong:\n", *(f"- {line}" for line in result.misses), ""]
    return lines


def _sampling(result: SuiteResult) -> str:
    """How often each table was sampled, by length of the interval: no detector is quicker than its rows."""
    by_length: dict[int, list[str]] = {}
    for name, seconds in sorted(result.suite.intervals.items()):
        by_length.setdefault(seconds, []).append(name)
    told = (f"every {seconds} s {', '.join(names)}" for seconds, names in sorted(by_length.items()))
    return f"Sampled {'; '.join(told)}."


def rows(result: SuiteResult) -> list[list[str]]:
    """Cells under HEADS, an entrant a row."""
    return [_row(each) for each in result.results]


def cause_rows(result: SuiteResult) -> list[list[str]]:
    """Cells under CAUSE_HEADS of what hotspare made of each cause that there was."""
    causes = next((each.card.causes for each in result.results if each.name == HOTSPARE), ())
    return [_cause_row(cause) for cause in causes if cause.faults]


def _row(result: Result) -> list[str]:
    total = result.card.total
    return [
        result.name, f"{total.detected} of {total.faults}", _share(total.precision), _share(total.recall),
        _share(total.top_1), _share(total.cause_accuracy), _number(total.onset_to_detection_p50_seconds),
        _number(total.onset_to_detection_p95_seconds), _number(total.abrupt_p50_seconds),
        _number(total.abrupt_p95_seconds), str(total.duplicates), _rate(result, "page"),
        _rate(result, "ticket"), _share(total.before_hard_failure), _share(result.vus_pr),
        _number(result.cpu_milliseconds_per_second),
    ]  # fmt: skip


def _cause_row(cause: CauseScore) -> list[str]:
    return [
        cause.cause, str(cause.faults), str(cause.detected), str(cause.late), _share(cause.cause_accuracy),
        _share(cause.top_1), _number(cause.onset_to_detection_p50_seconds),
        _number(cause.onset_to_detection_p95_seconds), _share(cause.incidents_per_fault),
        _number(cause.lead_p50_seconds),
    ]  # fmt: skip


def _rate(result: Result, severity: str) -> str:
    """Count, rate and bound."""
    rate = result.card.false_per_day(severity)
    count = result.card.false_pages if severity == "page" else result.card.false_tickets
    return str(count) if rate is None else f"{rate[0]:,.0f} (at most {rate[1]:,.0f}; seen {count})"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def table_of(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
