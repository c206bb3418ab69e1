"""hotspare doctor: what is installed, what can be reached, and what each source of telemetry last said."""

import platform
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import islice

import polars as pl
from rich.table import Table

from pipelines import operations_database
from pipelines.cli.output import FOUND_SOMETHING, AsJson, SettingsFile, console, moment, print_json, table
from pipelines.cli.session import operations_store, settings_at, telemetry_store
from pipelines.settings import Settings, configured
from pipelines.source_report import SourceReport, source_report
from pipelines.sources.choose import topology_of
from pipelines.sources.contract import SourceError
from pipelines.sources.kafka_client import consumer
from pipelines.telemetry_schema import NewerStore
from pipelines.telemetry_store import StoreUnavailable

LIBRARIES = ("polars", "duckdb", "dagster", "scikit-learn", "kafka-python", "dataframely", "sqlalchemy")
CLOCK_APART_SECONDS = 2.0  # as telemetry.clock_skew
SHOWN_MAXIMUM = 20  # lines of each list that a person gets; --json gives all


@dataclass(frozen=True)
class Check:
    """One thing looked at. good: None where it is merely absent and nothing asks for it."""

    what: str
    good: bool | None
    said: str


def doctor(settings: SettingsFile = None, as_json: AsJson = False) -> int:
    """Check installation, stores and broker, and show what came in and what was refused. Exit 1 on trouble."""
    chosen = settings_at(settings)
    checks = [_libraries(), _topology(chosen), _operations(chosen), _kafka(chosen)]
    report = None
    try:
        report = source_report(telemetry_store(chosen), configured(chosen))
        said = f"{chosen.store.telemetry}, {report.sources.height} sources"
        checks.append(Check("telemetry store", good=True, said=said))
    except (StoreUnavailable, NewerStore) as error:
        checks.append(
            Check("telemetry store", good=None if not chosen.store.telemetry.exists() else False, said=str(error))
        )
    if as_json:
        print_json({
            "checks": [vars(check) for check in checks],
            **({} if report is None else {name: frame.to_dicts() for name, frame in vars(report).items()}),
            "at": datetime.now(UTC),
        })  # fmt: skip
    else:
        screen = console()
        words = {True: "good", False: "WRONG", None: "-"}
        screen.print(
            table("Checks", ("what", "state", ""), ((check.what, words[check.good], check.said) for check in checks))
        )
        for shown in [] if report is None else _lists(report):
            screen.print(shown)
    return FOUND_SOMETHING if any(check.good is False for check in checks) else 0


def _lists(report: SourceReport) -> Iterator[Table]:
    """What there is to say of sources, a table each; the worst first where there are many."""
    sources = report.sources
    by_table = sources.group_by("table").agg(
        pl.len(), pl.col("rows", "late", "rejects").sum(), pl.col("last_seen").min().alias("oldest"),
        pl.col("last_seen").max().alias("newest"), pl.col("behind_seconds").median(),
    ).sort("table")  # fmt: skip
    rows: Iterable[Sequence[object]] = (
        (*row[:5], moment(row[5]), moment(row[6]), _seconds(row[7])) for row in by_table.iter_rows()
    )
    heads: tuple[str, ...] = (
        "table",
        "sources",
        "rows",
        "late",
        "rejects",
        "first to fall silent",
        "last seen",
        "clock behind by",
    )
    yield from _list("What came in", heads, rows, by_table.height)
    # A steady delay of all is the pipe's; a source that differs from the others has a clock of its own.
    apart = pl.col("behind_seconds") - pl.col("behind_seconds").median().over("table")
    odd = sources.with_columns(apart=apart).filter(
        (pl.col("rejects") + pl.col("late") > 0) | (pl.col("apart").abs() > CLOCK_APART_SECONDS)
    )
    rows = ((*row[:5], moment(row[5]), _seconds(row[6])) for row in odd.iter_rows())
    heads = ("table", "source", "rows", "late", "rejects", "last seen", "clock behind by")
    yield from _list("Sources with trouble", heads, rows, odd.height)
    rejects = report.rejects.with_columns(pl.col("source", "topic").fill_null("-"))
    heads = ("table", "source", "from", "rule", "rows", "for example")
    yield from _list(
        "What was refused (hotspare quarantine shows every row)", heads, rejects.iter_rows(), rejects.height
    )
    rows = ((origin, ", ".join(columns)) for origin, columns in report.signals.iter_rows())
    yield from _list("What sources cannot show", ("from", "missing"), rows, report.signals.height)
    rows = (
        (detector, state, name, ", ".join(columns) or "no rows")
        for detector, state, name, columns in report.blind.sort("state", maintain_order=True).iter_rows()
    )
    heads = ("detector", "state", "table", "without a value in its last day")
    yield from _list("Detectors that do not see", heads, rows, report.blind.height)
    heads = ("table", "kind", "name", "rows")
    yield from _list("Names that nothing knows", heads, report.unresolved.iter_rows(), report.unresolved.height)
    heads = ("kind", "alias", "entity")
    title = "Learned names that a running stream does not go by (put them into identity.file)"
    yield from _list(title, heads, report.learned.iter_rows(), report.learned.height)


def _list(title: str, heads: tuple[str, ...], rows: Iterable[Sequence[object]], count: int) -> Iterator[Table]:
    if count:
        more = f" (first {SHOWN_MAXIMUM} of {count}; --json shows all)" if count > SHOWN_MAXIMUM else ""
        yield table(title + more, heads, islice(rows, SHOWN_MAXIMUM))


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"


def _libraries() -> Check:
    return Check(
        "libraries",
        good=True,
        said=f"Python {platform.python_version()}, " + ", ".join(f"{name} {version(name)}" for name in LIBRARIES),
    )


def _topology(settings: Settings) -> Check:
    try:
        topology = topology_of(settings)
    except SourceError as error:
        return Check("topology", good=False, said=str(error))
    return Check(
        "topology", good=True, said=f"{topology.name}: {topology.nodes.height} nodes, {topology.links.height} links"
    )


def _operations(settings: Settings) -> Check:
    try:
        store = operations_store(settings)
        breaker, where = store.breaker(), store.database.where
        store.close()
    except operations_database.StoreUnavailable as error:
        return Check("operations store", good=False, said=str(error))
    said = f"{where}; breaker {'TRIPPED: ' + breaker.reason if breaker.tripped else 'closed'}"
    return Check("operations store", good=not breaker.tripped, said=said)


def _kafka(settings: Settings) -> Check:
    quick = settings.kafka.model_copy(update={"timeout_seconds": min(3.0, settings.kafka.timeout_seconds)})
    configured = settings.kafka != type(settings.kafka)()
    try:
        with consumer(quick) as client:
            ours = [topic for topic in client.topics() if topic.startswith(settings.kafka.topic_prefix)]
    except SourceError as error:
        return Check("kafka", good=False if configured else None, said=str(error))
    return Check("kafka", good=True, said=f"{settings.kafka.bootstrap_servers}: {len(ours)} topics of ours")
