"""hotspare doctor: what is installed, what can be reached, and what each source of telemetry last said."""

import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version

import polars as pl

from pipelines import operations_database
from pipelines.cli.output import FOUND_SOMETHING, AsJson, SettingsFile, console, moment, print_json, table
from pipelines.cli.session import operations_store, settings_at, telemetry_store
from pipelines.settings import Settings
from pipelines.sources.choose import topology_of
from pipelines.sources.contract import SourceError
from pipelines.sources.kafka_client import consumer
from pipelines.telemetry_schema import NewerStore
from pipelines.telemetry_store import StoreUnavailable

LIBRARIES = ("polars", "duckdb", "dagster", "scikit-learn", "kafka-python", "dataframely", "sqlalchemy")
SOURCES = """
    select "table", count(distinct source) as sources, sum(rows)::bigint as rows, sum(late)::bigint as late,
        sum(quarantined)::bigint as quarantined, max(time) as newest
    from telemetry_health group by 1 order by 1
"""
REASONS = (
    'select "table", rule, count(*)::bigint as rows from quarantine group by all order by rows desc, 1, 2 limit 20'
)


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
    sources = reasons = pl.DataFrame()
    try:
        store = telemetry_store(chosen)
        sources, reasons = store.query(SOURCES), store.query(REASONS)
        checks.append(
            Check("telemetry store", good=True, said=f"{chosen.store.telemetry}, {sources.height} tables with rows")
        )
    except (StoreUnavailable, NewerStore) as error:
        checks.append(
            Check("telemetry store", good=None if not chosen.store.telemetry.exists() else False, said=str(error))
        )
    if as_json:
        print_json({
            "checks": [vars(check) for check in checks],
            "tables": sources.to_dicts(), "quarantine": reasons.to_dicts(), "at": datetime.now(UTC),
        })  # fmt: skip
    else:
        screen = console()
        words = {True: "good", False: "WRONG", None: "-"}
        screen.print(
            table("Checks", ("what", "state", ""), ((check.what, words[check.good], check.said) for check in checks))
        )
        if not sources.is_empty():
            rows = ((*row[:-1], moment(row[-1])) for row in sources.iter_rows())
            screen.print(table("What came in", ("table", "sources", "rows", "late", "quarantined", "newest"), rows))
        if not reasons.is_empty():
            screen.print(table("What was refused", ("table", "rule", "rows"), reasons.iter_rows()))
    return FOUND_SOMETHING if any(check.good is False for check in checks) else 0


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
