"""hotspare.toml: every setting with its default. An unknown key is an error with a suggestion, never ignored.

Secrets are not settings: a password comes from the environment or from a file whose path is set here.
"""

import codecs
import dataclasses
import difflib
import os
import tomllib
from pathlib import Path
from typing import Any, Literal, Self

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from detectors.catalog import CATALOG
from detectors.contract import Detector
from pipelines.cable_settings import CableSettings
from pipelines.capacity import CapacitySettings
from pipelines.mapped_formats import MappingSettings, ModbusSettings
from pipelines.notify.settings import NotifySettings
from pipelines.recovery.executors.settings import ExecutorSettings
from pipelines.recovery.settings import RecoverySettings
from pipelines.web.settings import WebSettings
from schemas.identity import alias_table
from schemas.topology import ALIAS_COLUMNS

STORE_FOLDER_VARIABLE = "HOTSPARE_STORE_FOLDER"


class SettingsError(ValueError):
    """One line: which file, which key, what is wrong with it, and what was probably meant."""


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StoreSettings(Section):
    """telemetry: the DuckDB file. operations: a SQLite path or a PostgreSQL URL. actions: the log that enforced
    actions are written to. busy_seconds: how long a flush waits
    for another process. retention_days: sealed segments older than this are dropped.
    """

    telemetry: Path = Path("var/telemetry.duckdb")
    operations: str = "var/operations.sqlite"
    actions: Path = Path("var/actions.jsonl")
    busy_seconds: float = Field(default=10.0, ge=0, le=600)
    retention_days: int = Field(default=30, ge=1)


class KafkaSettings(Section):
    """Where the brokers are and how to speak to them. password_file: a file with the SASL password; without it the
    variable HOTSPARE_KAFKA_PASSWORD is read. ahead_seconds: a partition this far ahead of the slowest one is paused.
    idle_seconds: in `hotspare serve`, of events and metrics the one that has sent nothing for so long keeps the other
    waiting no more; longer than rows are usually under way.
    """

    bootstrap_servers: str = "localhost:9092"
    topic_prefix: str = "hotspare."
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    username: str | None = None
    password_file: Path | None = None
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    check_hostname: bool = True
    compression: Literal["none", "gzip", "lz4", "zstd"] = "zstd"
    partitions: int = Field(default=4, ge=1, le=1024)
    timeout_seconds: float = Field(default=10.0, gt=0, le=600)
    ahead_seconds: float = Field(default=60.0, gt=0)
    idle_seconds: float = Field(default=2.0, gt=0, le=600)

    def password(self) -> str | None:
        """The SASL password from its file or the environment; never stored in the settings, never printed."""
        if self.password_file is not None:
            return self.password_file.read_text().strip()
        return os.environ.get("HOTSPARE_KAFKA_PASSWORD")


class TopologySettings(Section):
    """One of: a preset with parameters, or a folder with nodes.csv and links.csv, or an ibnetdiscover output."""

    preset: str = "ndr-fat-tree"
    parameters: dict[str, int | float | str] = Field(default_factory=dict)
    folder: Path | None = None
    ibnetdiscover: Path | None = None


class LimitSettings(Section):
    """Limits on everything that comes in. A larger message or file is refused with one line, and nothing else stops."""

    message_bytes_maximum: int = Field(default=16 * 1024 * 1024, gt=0)
    file_bytes_maximum: int = Field(default=1024 * 1024 * 1024, gt=0)
    batch_messages_maximum: int = Field(default=5000, gt=0)
    buffered_rows_maximum: int = Field(default=5_000_000, gt=0)


class BundleSettings(Section):
    """bytes_maximum: of one bundle, written or read. before_seconds: so much time before an incident's onset goes into
    its bundle, so that detectors know what was usual; after_seconds: and after its end. dollars_per_gpu_hour: what a
    lost GPU-hour is reckoned at in a postmortem.
    """

    bytes_maximum: int = Field(default=1024 * 1024 * 1024, gt=0)
    before_seconds: float = Field(default=1800.0, ge=0)
    after_seconds: float = Field(default=300.0, ge=0)
    dollars_per_gpu_hour: float = Field(default=2.0, ge=0)


class DagsterSettings(Section):
    """scheduled_source: what the schedule ingests, as `--from` of `hotspare ingest` takes it, or `simulated`.
    drop_folder: a recording or a file put there is ingested once it has stopped changing. lag_messages_minimum: so
    many unread Kafka messages start a run before the schedule does. keep_runs_days: older runs are forgotten.
    """

    scheduled_source: str = "simulated"
    drop_folder: Path = Path("var/drop")
    lag_messages_minimum: int = Field(default=1000, ge=1)
    keep_runs_days: float = Field(default=3.0, gt=0)


class IdentitySettings(Section):
    """Other names of what the topology names. domains: endings of host names that mean nothing. hosts, devices,
    guids: name or GUID -> node or device. uuids: GPU -> node/slot. slots: pattern of nodes -> PCI address -> slot, as
    nodes of one model share them. file: a CSV of kind, alias, entity with more (those, and cdu and pdu).
    """

    domains: tuple[str, ...] = ()
    hosts: dict[str, str] = Field(default_factory=dict)
    devices: dict[str, str] = Field(default_factory=dict)
    guids: dict[str, str] = Field(default_factory=dict)
    uuids: dict[str, str] = Field(default_factory=dict)
    slots: dict[str, dict[str, int]] = Field(default_factory=dict)
    file: Path | None = None

    @model_validator(mode="after")
    def _spelled(self) -> Self:
        alias_table(self.rows())
        return self

    def rows(self) -> list[tuple[str, str, str]]:
        """Kind, alias, entity. Names of a whole pattern come first, so that what is said of one holds."""
        slots = [
            ("pci", f"{pattern} {address}", f"*/{slot}")
            for pattern, addresses in self.slots.items()
            for address, slot in addresses.items()
        ]
        named = (("host", self.hosts), ("device", self.devices), ("guid", self.guids), ("uuid", self.uuids))
        return [*slots, *((kind, alias, entity) for kind, names in named for alias, entity in names.items())]


class Settings(Section):
    store: StoreSettings = StoreSettings()
    kafka: KafkaSettings = KafkaSettings()
    topology: TopologySettings = TopologySettings()
    identity: IdentitySettings = IdentitySettings()
    limits: LimitSettings = LimitSettings()
    recovery: RecoverySettings = RecoverySettings()
    executors: ExecutorSettings = ExecutorSettings()
    notify: NotifySettings = NotifySettings()
    web: WebSettings = WebSettings()
    capacity: CapacitySettings = CapacitySettings()
    dagster: DagsterSettings = DagsterSettings()
    cable: CableSettings = CableSettings()
    bundles: BundleSettings = BundleSettings()
    topics: dict[str, str] = Field(default_factory=dict, description="topic -> format, for other producers' topics")
    mapping: dict[str, MappingSettings] = Field(default_factory=dict, description="name -> columns of CSV or Parquet")
    modbus: dict[str, ModbusSettings] = Field(default_factory=dict, description="name -> map of registers")
    detectors: dict[str, dict[str, Any]] = Field(default_factory=dict, description="detector -> threshold -> value")


def load_settings(path: Path | None = None) -> Settings:
    """Settings from the file, from hotspare.toml here when there is one, or the defaults. Raises SettingsError.

    Without a file's being named, HOTSPARE_STORE_FOLDER puts the stores elsewhere.
    """
    chosen = path if path is not None else Path("hotspare.toml")
    settings = Settings() if path is None and not chosen.exists() else settings_from(_values(chosen), str(chosen))
    folder = os.environ.get(STORE_FOLDER_VARIABLE)
    return settings if path is not None or not folder else stored_in(settings, Path(folder))


def stored_in(settings: Settings, folder: Path) -> Settings:
    """The settings with all that is kept in this folder."""
    places = {
        "telemetry": folder / "telemetry.duckdb",
        "operations": str(folder / "operations.sqlite"),
        "actions": folder / "actions.jsonl",
    }
    return settings.model_copy(update={"store": settings.store.model_copy(update=places)})


def _values(path: Path) -> dict[str, Any]:
    try:
        data = path.read_bytes()
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise SettingsError(f"{path}: UTF-16; save it as UTF-8, or convert it with iconv -f UTF-16 -t UTF-8")
        return tomllib.loads(data.decode("utf-8-sig"))
    except FileNotFoundError:
        raise SettingsError(f"{path}: no such file") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SettingsError(f"{path}: line {line} is not UTF-8; save it as UTF-8") from None
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror or error}") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: {error}") from None


def settings_from(values: dict[str, Any], where: str) -> Settings:
    """Settings from a tree of values, thresholds of detectors checked too."""
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        raise SettingsError(f"{where}: {_one_line(error)}") from None
    configured(settings, where)
    return settings


def aliases_of(identity: IdentitySettings) -> pl.DataFrame:
    """The alias table of the settings and of the file that they name. Raises SettingsError."""
    rows: list[tuple[str, str, str]] = []
    if identity.file is not None:
        try:
            table = pl.read_csv(identity.file, infer_schema=False)
            rows = list(table.select(ALIAS_COLUMNS.names()).drop_nulls().iter_rows())
            alias_table(rows)
        except (OSError, ValueError, pl.exceptions.PolarsError) as error:
            said = getattr(error, "strerror", None) or str(error).splitlines()[0]
            raise SettingsError(f"{identity.file}: no CSV of kind,alias,entity: {said}") from None
    return alias_table([*rows, *identity.rows()])


def configured(settings: Settings, where: str = "settings") -> tuple[Detector, ...]:
    """The catalogue with the thresholds that the settings change."""
    known = {detector.name: detector for detector in CATALOG}
    for name, thresholds in settings.detectors.items():
        if name not in known:
            nested = next((f"{name}.{key}" for key in thresholds if f"{name}.{key}" in known), None)
            if nested is not None:
                raise SettingsError(f'{where}: detectors.{nested}: write [detectors."{nested}"], as its name has a dot')
            raise SettingsError(f"{where}: detectors.{name}: no such detector{_suggestion(name, list(known))}")
    return tuple(_tuned(detector, settings.detectors.get(detector.name, {}), where) for detector in CATALOG)


def _tuned(detector: Detector, thresholds: dict[str, Any], where: str) -> Detector:
    if not thresholds:
        return detector
    assert dataclasses.is_dataclass(detector)
    assert not isinstance(detector, type)
    fields = {
        field.name: field.default for field in dataclasses.fields(detector) if isinstance(field.default, int | float)
    }
    for key, value in thresholds.items():
        place = f"{where}: detectors.{detector.name}.{key}"
        if key not in fields:
            raise SettingsError(f"{place}: no such threshold{_suggestion(key, list(fields), all_of_them=True)}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise SettingsError(f"{place}: a number is wanted, not {value!r}")
    tuned: Detector = dataclasses.replace(detector, **thresholds)
    return tuned


def _one_line(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"{place}: no such key{_suggestion(str(first['loc'][-1]), _siblings(first['loc'][:-1]))}"
    return f"{place}: {first['msg']}"


def _siblings(path: tuple[int | str, ...]) -> list[str]:
    """Keys that could stand at this place of the tree."""
    model: Any = Settings
    for part in path:
        model = model.model_fields[part].annotation if hasattr(model, "model_fields") else None
    return list(model.model_fields) if hasattr(model, "model_fields") else []


def _suggestion(given: str, known: list[str], *, all_of_them: bool = False) -> str:
    """What was probably meant; all there are where nothing is like it, or where they are few enough to be shown."""
    close = difflib.get_close_matches(given, known, n=1)
    meant = f"; did you mean {close[0]!r}?" if close else ";"
    return f"{meant} known: {', '.join(known) or 'none'}" if all_of_them or not close else meant
