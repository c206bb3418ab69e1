"""A scenario: which cluster, how long, what breaks when, and what is expected to be said about it.

Scenarios are TOML files. An unknown key is an error that names the file, the key and the nearest known one, because a
misspelt parameter that is silently ignored makes a wrong experiment.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import UTC, datetime
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from schemas.causes import CAUSE_BY_NAME
from schemas.tables import TABLE_BY_NAME, TABLES

Part = TypeVar("Part")


class ScenarioError(ValueError):
    """A scenario that cannot be run: one line with the file, the key and what to do."""


@dataclass(frozen=True, kw_only=True)
class TopologyChoice:
    """preset and parameters of schemas.topology_presets.build."""

    preset: str = "ndr-fat-tree"
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class JobPlan:
    """The training job that runs on every compute node from before the scenario begins.

    checkpoint_stall_seconds: ranks wait that long for the snapshot. loss_stall_seconds: after a rank is lost, the
    survivors stand still that long, then go on without its gradients.
    """

    name: str = "train-1"
    compute_seconds: float = 4.0
    communication_seconds: float = 0.8
    checkpoint_interval_seconds: float = 300.0
    checkpoint_stall_seconds: float = 6.0
    loss_stall_seconds: float = 8.0


@dataclass(frozen=True, kw_only=True)
class OtdrPlan:
    """cables: how many of the longest are measured. Shots begin at first_shot_seconds; the first is the baseline.
    wavelengths_nanometers: of single mode, shot one after the other (replay.fiber_tables).
    """

    cables: int = 4
    first_shot_seconds: int = 0
    shot_interval_seconds: int = 300
    wavelengths_nanometers: tuple[float, ...] = (1310.0,)


@dataclass(frozen=True, kw_only=True)
class FaultPlan:
    """One [[fault]]. entity or roots name where; parameters are the fault's own fields (replay.faults)."""

    fault: str
    at_seconds: int
    entity: str | None = None
    roots: tuple[str, ...] = ()
    lasts_seconds: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """One [[expect]]: an incident with this cause and these roots is detected in time.

    Give detected_within_seconds (of the onset in the label) or between (seconds of the scenario). members: how many
    GPUs it has, if that matters.
    """

    cause: str
    roots: tuple[str, ...]
    detected_within_seconds: float | None = None
    between: tuple[float, float] | None = None
    members: int | None = None


@dataclass(frozen=True, kw_only=True)
class History:
    """[history] of a reconstruction. source: where it is told. known, assumed: what is from there, and what is not."""

    source: str
    known: str
    assumed: str


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """intervals: seconds between samples, table by table. tables: the ones that are sent at all.
    nothing_else: an incident that no [[expect]] mentions is a false one.
    """

    name: str
    description: str
    seed: int
    starts_at: datetime
    duration_seconds: int
    topology: TopologyChoice
    job: JobPlan
    otdr: OtdrPlan
    intervals: Mapping[str, int]
    tables: tuple[str, ...]
    history: History | None = None
    faults: tuple[FaultPlan, ...]
    expects: tuple[Expectation, ...]
    nothing_else: bool


TOP_KEYS = (
    "name", "description", "seed", "starts_at", "duration_seconds", "topology", "job", "otdr", "intervals", "tables",
    "history",
    "fault", "expect", "nothing_else",
)  # fmt: skip


def scenario_names() -> tuple[str, ...]:
    """Names of the scenarios that come with the project; history/NAME are reconstructions of what has happened."""
    folder = files("replay") / "scenarios"
    found = {"": folder, "history/": folder / "history"}
    return tuple(
        sorted(
            prefix + entry.name.removesuffix(".toml")
            for prefix, place in found.items() for entry in place.iterdir() if entry.name.endswith(".toml")
        )
    )  # fmt: skip


def load_scenario(name_or_path: str) -> Scenario:
    """A scenario by name, or by the path of its .toml file. Raises ScenarioError."""
    if name_or_path.endswith(".toml"):
        path = Path(name_or_path)
        if not path.is_file():
            raise ScenarioError(f"scenario {name_or_path}: there is no such file")
        return parse_scenario(path.read_text("utf-8"), name_or_path)
    if name_or_path not in scenario_names():
        raise ScenarioError(f"scenario {name_or_path!r} is not known{_hint(name_or_path, scenario_names())}")
    return parse_scenario((files("replay") / "scenarios" / f"{name_or_path}.toml").read_text("utf-8"), name_or_path)


def parse_scenario(text: str, source: str) -> Scenario:
    """A scenario from TOML text; source is how errors call it. Raises ScenarioError."""
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"scenario {source}: not TOML: {error}") from error
    _known(tree, TOP_KEYS, source, "")
    for key in ("name", "duration_seconds"):
        if key not in tree:
            raise ScenarioError(f"scenario {source}: {key} is missing")
    intervals = {table.name: max(1, round(table.interval_seconds)) for table in TABLES if table.interval_seconds}
    _known(tree.get("intervals", {}), tuple(intervals), source, "intervals.")
    tables = tuple(tree.get("tables", TABLE_BY_NAME))
    _known(dict.fromkeys(tables), tuple(TABLE_BY_NAME), source, "tables: ")
    scenario = Scenario(
        name=tree["name"],
        description=tree.get("description", ""),
        seed=int(tree.get("seed", 1)),
        starts_at=_instant(tree.get("starts_at", datetime(2026, 1, 1, tzinfo=UTC)), source),
        duration_seconds=int(tree["duration_seconds"]),
        topology=_part(TopologyChoice, tree.get("topology", {}), source, "topology."),
        job=_part(JobPlan, tree.get("job", {}), source, "job."),
        otdr=_part(OtdrPlan, tree.get("otdr", {}), source, "otdr."),
        intervals=MappingProxyType({**intervals, **tree.get("intervals", {})}),
        tables=tables,
        history=_part(History, tree["history"], source, "history.") if "history" in tree else None,
        faults=tuple(_part(FaultPlan, entry, source, "fault.") for entry in tree.get("fault", ())),
        expects=tuple(_part(Expectation, entry, source, "expect.") for entry in tree.get("expect", ())),
        nothing_else=bool(tree.get("nothing_else", True)),
    )
    _plausible(scenario, source)
    return scenario


def _part(kind: type[Part], entry: Mapping[str, Any], source: str, prefix: str) -> Part:
    """The dataclass with the entry's values, lists as tuples. Raises ScenarioError for unknown and missing keys."""
    known = fields(kind)  # type: ignore[arg-type]  # Part is always one of the dataclasses above
    _known(entry, tuple(each.name for each in known), source, prefix)
    for each in known:
        if each.default is MISSING and each.default_factory is MISSING and each.name not in entry:
            raise ScenarioError(f"scenario {source}: {prefix}{each.name} is missing")
    return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()})


def _known(entry: Mapping[str, Any], known: tuple[str, ...], source: str, prefix: str) -> None:
    for key in entry:
        if key not in known:
            raise ScenarioError(f"scenario {source}: {prefix}{key} is not known{_hint(key, known)}")


def _hint(word: str, known: tuple[str, ...]) -> str:
    close = get_close_matches(word, known, n=1)
    return f": did you mean {close[0]}?" if close else f": choose from {', '.join(known)}"


def _instant(value: object, source: str) -> datetime:
    if not isinstance(value, datetime):
        raise ScenarioError(f"scenario {source}: starts_at must be a date and time, such as 2026-01-01T08:00:00Z")
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _plausible(scenario: Scenario, source: str) -> None:
    if scenario.duration_seconds < 1:
        raise ScenarioError(f"scenario {source}: duration_seconds must be at least 1")
    for table, interval in scenario.intervals.items():
        if not isinstance(interval, int) or interval < 1:
            raise ScenarioError(f"scenario {source}: intervals.{table} must be a whole number of seconds, at least 1")
    for expect in scenario.expects:
        if expect.cause not in CAUSE_BY_NAME:
            raise ScenarioError(
                f"scenario {source}: expect.cause {expect.cause!r} is not known"
                f"{_hint(expect.cause, tuple(CAUSE_BY_NAME))}"
            )
    for fault in scenario.faults:
        if not 0 <= fault.at_seconds < scenario.duration_seconds:
            raise ScenarioError(
                f"scenario {source}: fault {fault.fault} at_seconds {fault.at_seconds} is outside the scenario"
            )
