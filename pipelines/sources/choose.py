"""From what a person typed to a source: a scenario, a recording, a window of the store, a range of Kafka, a file."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import partial
from pathlib import Path

from pipelines.bundles.bundle import decode, is_bundle
from pipelines.bundles.source import bundle_source
from pipelines.mapped_formats import TOPIC_MARK, mapped_format
from pipelines.pacing import WINDOW_SECONDS, window_seconds
from pipelines.settings import Settings
from pipelines.sources.arrival_lags import recorded_lags
from pipelines.sources.contract import Source, SourceError
from pipelines.sources.files import FileSource, surroundings_of
from pipelines.sources.gathered import ROWS_AT_ONCE
from pipelines.sources.kafka import KafkaSource
from pipelines.sources.live_simulation import SPEC, live_simulation
from pipelines.sources.windows import WindowSource
from pipelines.stored_rows import INSTANT, Stretch, look_for_rows, windows
from pipelines.telemetry_cluster import Cluster
from pipelines.telemetry_store import TelemetryStore
from pipelines.topics import Format
from replay.faults_exporters import ClockOff
from replay.recording import read_recording
from replay.scenario import Scenario, load_scenario, scenario_names
from replay.simulate import simulate
from replay.simulate import topology_of as topology_of_scenario
from schemas.formats.decoded import Unreadable
from schemas.formats.ibnetdiscover import decode as decode_ibnetdiscover
from schemas.formats.topology_csv import decode_topology
from schemas.tables import USUAL_INTERVALS_SECONDS
from schemas.topology import Topology
from schemas.topology_presets import build

ARRIVAL_WINDOW_SECONDS = 5
PACED_MESSAGES = 200
FIRST_YEAR, LAST_YEAR = 1970, 9998
RANGE = re.compile(r"^(store:|kafka:(?P<topics>[^@]*)@)(?P<begin>.+?)\.\.(?P<end>.+)$")


def source_for(  # noqa: PLR0913  what a person may say about a source
    spec: str,
    settings: Settings,
    *,
    node: str | None = None,
    seed: int | None = None,
    speed: float | None = None,
    mapping: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Source:
    """The source that `spec` names; speed only sets how finely it is cut. mapping: the section of the settings that
    says what a file's columns are. say: told what a person should know of how a file was read.

    Raises SourceError, ScenarioError or RecordingError, with one line.
    """
    if spec == "kafka":
        return kafka_source(settings)
    if spec == SPEC or spec.startswith(f"{SPEC}@"):
        return live_simulation(spec, lambda: datetime.now(UTC))
    if spec.startswith(("store:", "kafka:")):
        return _ranged(spec, settings, window_seconds(speed))
    path = Path(spec)
    if path.is_dir():
        return recording_source(path, speed=speed)
    if spec in scenario_names() or path.suffix == ".toml":
        return scenario_source(load_scenario(spec), seed=seed, speed=speed)
    if not path.exists():
        close = get_close_matches(spec, scenario_names(), n=1)
        hint = f"did you mean {close[0]}?" if close else f"scenarios: {', '.join(scenario_names())}"
        raise SourceError(f"{spec}: no such scenario, recording or file; {hint}")
    return bundle_source(decode(path, settings.bundles.bytes_maximum), seconds=window_seconds(speed)) if is_bundle(
        path
    ) else FileSource(
        path=path, topology=topology_of(settings), surroundings=surroundings_of(path, node=node),
        bytes_maximum=settings.limits.file_bytes_maximum, node=node, say=say,
        form=None if mapping is None else _mapped(mapping, settings),
    )  # fmt: skip


def kafka_source(settings: Settings) -> KafkaSource:
    """Everything on the brokers that is ours, from where the store left off."""
    return KafkaSource(
        settings=settings.kafka, limits=settings.limits, formats=topic_formats(settings), topology=topology_of(settings)
    )


def topic_formats(settings: Settings) -> dict[str, str | Format]:
    """Other producers' topics with their formats: names of known ones, and those that the settings map."""
    return {
        topic: _mapped(name.removeprefix(TOPIC_MARK), settings) if name.startswith(TOPIC_MARK) else name
        for topic, name in settings.topics.items()
    }


def _mapped(name: str, settings: Settings) -> Format:
    try:
        return mapped_format(name, settings.mapping, settings.modbus)
    except ValueError as error:
        raise SourceError(str(error)) from None


def scenario_source(scenario: Scenario, *, seed: int | None = None, speed: float | None = None) -> WindowSource:
    if seed is not None:
        scenario = replace(scenario, seed=seed)
    topology = topology_of_scenario(scenario)
    return WindowSource(
        stream=f"scenario:{scenario.name}:{scenario.seed}", topology=topology,
        intervals_seconds={name: float(seconds) for name, seconds in scenario.intervals.items()},
        span_seconds=scenario.duration_seconds,
        windows=lambda: simulate(scenario, topology, window_seconds=window_seconds(speed, topology)),
        delay_seconds=0.0 if any(plan.fault == ClockOff.name for plan in scenario.faults) else None,
    )  # fmt: skip


def recording_source(folder: Path, *, speed: float | None = None) -> WindowSource:
    """A recording folder, cut into windows of event time, or of arrival where it says when rows arrived."""
    recording = read_recording(folder, window_seconds=window_seconds(speed))
    meta, seconds = recording.meta, window_seconds(speed, recording.topology)
    if recording.delay_seconds is not None:
        seconds = ARRIVAL_WINDOW_SECONDS  # what has arrived by when must not depend on the speed
    return WindowSource(
        stream=f"recording:{meta.name}:{folder.absolute()}", topology=recording.topology,
        intervals_seconds=meta.intervals, span_seconds=(meta.ends_at - meta.starts_at).total_seconds(),
        windows=lambda: read_recording(folder, window_seconds=seconds).windows,
        delay_seconds=recording.delay_seconds, lags=recorded_lags(folder),
    )  # fmt: skip


def topology_of(settings: Settings) -> Topology:
    """The cluster as the settings describe it: a folder of CSV files, an ibnetdiscover output, or a preset."""
    chosen = settings.topology
    try:
        if chosen.folder is not None:
            nodes, links = ((chosen.folder / name).read_bytes() for name in ("nodes.csv", "links.csv"))
            aliases = chosen.folder / "aliases.csv"
            known = aliases.read_bytes() if aliases.exists() else b""
            return decode_topology(chosen.folder.name, nodes, links, known)
        if chosen.ibnetdiscover is not None:
            return decode_ibnetdiscover(chosen.ibnetdiscover.read_bytes()).topology
        return build(chosen.preset, **chosen.parameters)
    except (OSError, Unreadable, ValueError, TypeError) as error:
        raise SourceError(f"topology: {error}") from None


def _ranged(spec: str, settings: Settings, seconds: int) -> Source:
    found = RANGE.match(spec)
    if found is None:
        raise SourceError(f"{spec}: write store:FROM..TO or kafka:TOPICS@FROM..TO, times as 2026-03-01T08:00:00Z")
    try:
        begin, end = instant(found["begin"]), instant(found["end"])
    except ValueError as error:
        raise SourceError(f"{spec}: {error}") from None
    if end <= begin:
        raise SourceError(f"{spec}: the window ends before it begins")
    if spec.startswith("store:"):
        return store_source(settings, begin, end, seconds)
    limits = settings.limits
    if seconds != window_seconds(None):  # small bites, so that about the right ones come each second
        bite = min(PACED_MESSAGES, limits.batch_messages_maximum)
        limits = limits.model_copy(update={"batch_messages_maximum": bite})
    return KafkaSource(
        settings=settings.kafka, limits=limits, formats=topic_formats(settings),
        topology=topology_of(settings), window=(begin, end),
        topics=tuple(topic for topic in found["topics"].split(",") if topic),
    )  # fmt: skip


def store_source(settings: Settings, begin: datetime, end: datetime, seconds: int) -> WindowSource:
    """What the store holds of begin <= time < end. Rows were admitted once; they pass the door again unchanged.

    They are judged on the cluster that they came from, where the store knows it. Raises NothingStored.
    """
    store = TelemetryStore(settings.store.telemetry, settings.store.busy_seconds)
    look_for_rows(store, begin, end)
    cluster = store.cluster(begin, end)
    end = end if cluster is None else min(end, cluster.until)  # past it there is no silence, only nothing known
    return stretch_source(store, settings, Stretch(begin, end), cluster, seconds)


def stretch_source(
    store: TelemetryStore, settings: Settings, stretch: Stretch, cluster: Cluster | None, seconds: int
) -> WindowSource:
    """The rows of a stretch, `seconds` at a time. cluster: what they came from; None: what the settings describe."""
    begin, end = stretch.begins_at, stretch.ends_at
    return WindowSource(
        stream=f"store:{begin.isoformat()}..{end.isoformat()}",
        topology=topology_of(settings) if cluster is None else cluster.topology,
        intervals_seconds=USUAL_INTERVALS_SECONDS if cluster is None else cluster.intervals_seconds,
        span_seconds=stretch.seconds,
        lags=store.lags(begin, end + INSTANT),  # those of a stream's last step are noted as of its end
        windows=partial(windows, store, stretch, seconds, rows=ROWS_AT_ONCE if seconds == WINDOW_SECONDS else 0),
    )  # fmt: skip


def instant(text: str) -> datetime:
    """A time that a person typed, in UTC where it names no zone. Raises ValueError, in words for them."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a time like 2026-03-01T08:00:00Z") from None
    if not FIRST_YEAR <= moment.year <= LAST_YEAR:
        raise ValueError(f"{text!r} is not between {FIRST_YEAR} and {LAST_YEAR}")
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
