"""What is known of sources beside their rows: signals they lack, clocks, names; and which detectors that blinds."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import polars as pl
import pytest

from detectors.fabric.link_flap import LinkFlap
from detectors.gpu.row_remap import RowRemapFailure
from detectors.gpu.xid import XidFault
from pipelines.blindness import blindness
from pipelines.settings import IdentitySettings, Settings, SettingsError, aliases_of, settings_from
from pipelines.source_notes import SourceNotes, skew_of, together
from pipelines.source_report import SourceReport, source_report
from pipelines.telemetry_schema import MIGRATIONS, VERSION
from pipelines.telemetry_store import TelemetryStore
from pipelines.workplace import Workplace
from schemas.identity import UNRESOLVED_COLUMNS, alias_table
from schemas.tables import TABLE_BY_NAME

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MICROSECONDS = 1_772_366_400_000_000  # date -u -d 2026-03-01T12:00:00Z +%s


@pytest.fixture
def store(tmp_path: Path) -> TelemetryStore:
    return TelemetryStore(tmp_path / "telemetry.duckdb")


def flush(store: TelemetryStore, *notes: SourceNotes, **more) -> None:
    store.flush("kafka", [], {}, notes=together(notes), **more)


def test_a_source_lacks_what_it_has_always_lacked(store: TelemetryStore) -> None:
    first = SourceNotes(missing={"metrics": frozenset({"power_watts", "pcie_width"}), "a.txt": frozenset()})
    flush(store, first, SourceNotes(missing={"metrics": frozenset({"power_watts", "pcie_width", "uuid"})}))
    flush(store, SourceNotes(missing={"metrics": frozenset({"pcie_width"})}))
    assert store.query("select origin, missing from source_signals order by 1").rows() == [
        ("a.txt", []), ("metrics", ["pcie_width"])
    ]  # fmt: skip


def test_unknown_names_add_up(store: TelemetryStore) -> None:
    notes = SourceNotes(unresolved=pl.DataFrame([("gpu", "host", "x", 3)], schema=UNRESOLVED_COLUMNS, orient="row"))
    flush(store, notes, notes)
    flush(store, notes)
    assert store.query("select alias, rows from unresolved").rows() == [("x", 9)]


def test_a_stream_goes_by_the_names_it_began_with(store: TelemetryStore) -> None:
    flush(store, SourceNotes(learned=alias_table([("uuid", "GPU-11112222", "n00012/5")])))
    began = store.aliases("kafka", begun=False)
    flush(store, SourceNotes(learned=alias_table([("uuid", "GPU-11112222", "n00012/6")])), aliases=began)
    assert store.aliases("kafka", begun=True).rows() == [("uuid", "gpu-11112222", "n00012/5")]
    assert store.aliases("other", begun=False).rows() == [("uuid", "gpu-11112222", "n00012/6")]


def test_a_clock_is_as_far_behind_as_its_newest_row_behind_the_newest_message() -> None:
    rows = pl.DataFrame(
        {"time": [NOON, NOON - timedelta(seconds=9), NOON - timedelta(hours=1)], "node": ["a", "a", "b"]}
    )
    found = skew_of({"gpu": rows, "gpu_event": rows}, NOON + timedelta(seconds=2))
    assert found.sort("source").rows() == [("gpu", "a", 2.0), ("gpu", "b", 3602.0)]


def test_where_arrival_is_not_known_nothing_is_said_of_clocks() -> None:
    assert skew_of({"gpu": pl.DataFrame({"time": [NOON], "node": ["a"]})}, None).is_empty()


def test_a_store_of_the_first_version_is_brought_up_to_date_with_its_rows(store: TelemetryStore) -> None:
    with duckdb.connect(str(store.path)) as connection:
        MIGRATIONS[0](connection)
        connection.execute("insert into live.quarantine (rule) values ('x|y')")
        connection.execute("create table schema_version as select 1::integer as version, '' as segments")
    assert store.query("select rule from quarantine").rows() == [("x|y",)]
    assert store.query("select version from schema_version").item() == VERSION
    assert store.query("select * from unresolved").is_empty()


def every(table: str, *but: str) -> frozenset[str]:
    return frozenset(TABLE_BY_NAME[table].columns) - set(but)


def test_a_detector_without_its_table_is_blind() -> None:
    assert blindness([LinkFlap()], {"gpu": every("gpu")}).rows() == [("fabric.link_flap", "blind", "fabric_port", [])]


def test_a_detector_without_one_of_its_columns_is_partly_blind_and_without_all_blind() -> None:
    flaps = [LinkFlap()]
    assert blindness(flaps, {"fabric_port": every("fabric_port", "state")}).rows() == [
        ("fabric.link_flap", "partly", "fabric_port", ["state"])
    ]
    assert blindness(flaps, {"fabric_port": every("fabric_port", "state", "link_downed_total")}).rows() == [
        ("fabric.link_flap", "blind", "fabric_port", ["state", "link_downed_total"])
    ]


def test_a_column_that_a_detector_does_not_read_blinds_it_in_nothing() -> None:
    assert blindness([RowRemapFailure()], {"gpu": every("gpu", "power_watts", "pcie_width")}).is_empty()


def test_events_that_say_what_happened_are_enough_to_see() -> None:
    valued = {"gpu_event": every("gpu_event", "recovery_action"), "gpu": every("gpu")}
    assert set(blindness([XidFault()], valued)["state"]) <= {"partly"}


def test_settings_name_a_kind_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="identity"):
        settings_from({"identity": {"guids": {"leaf": "leaf-017"}}}, "hotspare.toml")
    path = tmp_path / "names.csv"
    path.write_text("kind,alias,entity\nmac,00:11,n1\n")
    with pytest.raises(SettingsError, match=r"names\.csv: .*'mac' is no kind"):
        aliases_of(IdentitySettings(file=path))


def test_what_the_settings_say_themselves_holds_before_their_file(tmp_path: Path) -> None:
    path = tmp_path / "names.csv"
    path.write_text("kind,alias,entity\nhost,a,n1\nhost,b,n2\n")
    aliases = aliases_of(IdentitySettings(file=path, hosts={"a": "n3"}, slots={"n0*": {"0000:9B:00.0": 4}}))
    assert sorted(aliases.rows()) == [
        ("host", "a", "n3"), ("host", "b", "n2"), ("pci", "n0* 0000:9b:00", "*/4")
    ]  # fmt: skip


def ingested(folder: Path, name: str, rows: list[dict], **identity: object) -> SourceReport:
    """A file of wire messages through the whole loop into both stores, and what doctor says then."""
    settings = settings_from(
        {
            "store": {"telemetry": str(folder / "t.duckdb"), "operations": str(folder / "o.sqlite"),
                      "actions": str(folder / "a.jsonl")},
            "identity": identity,
        }, "test",
    )  # fmt: skip
    file = folder / name
    file.write_text("\n".join(json.dumps({"time": MICROSECONDS} | row) for row in rows))
    workplace = Workplace(settings=settings)
    workplace.ingest(workplace.source(str(file)), "test")
    return source_report(workplace.telemetry, ())


def stored(folder: Path, sql: str) -> list[tuple]:
    return TelemetryStore(folder / "t.duckdb").query(sql).rows()


def test_rows_are_stored_under_one_name_and_what_nothing_knows_is_counted(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    report = ingested(
        tmp_path, "gpu_event.jsonl",
        [{"node": "n00012.pod.example.com", "pci": "00000000:9B:00.0", "kind": "xid", "code": 79},
         {"node": "stranger", "pci": "0000:01:00", "kind": "xid", "code": 31}],
        domains=["pod.example.com"], slots={"n0*": {"0000:9b:00": 4}},
    )  # fmt: skip
    assert stored(tmp_path, "select node, gpu, pci from gpu_event order by node") == [
        ("n00012", 4, "0000:9b:00"), ("stranger", None, "0000:01:00")
    ]  # fmt: skip
    assert report.unresolved.rows() == [
        ("gpu_event", "host", "stranger", 1), ("gpu_event", "pci", "stranger 0000:01:00", 1)
    ]  # fmt: skip
    assert report.sources.select("table", "source", "rows").rows() == [
        ("gpu_event", "n00012", 1), ("gpu_event", "stranger", 1)
    ]  # fmt: skip


def test_an_address_that_one_file_explains_is_known_in_the_next(tmp_path: Path) -> None:
    event = {"node": "n00012", "pci": "0000:1b:00", "kind": "xid"}
    report = ingested(tmp_path, "gpu_event.jsonl", [event | {"gpu": 2, "code": 31}])
    assert report.learned.rows() == [("pci", "n00012 0000:1b:00", "n00012/2")]
    (tmp_path / "later").mkdir()
    later = tmp_path / "later" / "gpu_event.jsonl"
    later.write_text(json.dumps({"time": MICROSECONDS + 5_000_000} | event | {"code": 43}))
    workplace = Workplace(
        settings=Settings.model_validate(
            {"store": {"telemetry": tmp_path / "t.duckdb", "operations": str(tmp_path / "o.sqlite"),
                       "actions": tmp_path / "a.jsonl"}}
        )
    )  # fmt: skip
    workplace.ingest(workplace.source(str(later)), "test")
    assert stored(tmp_path, "select code, gpu from gpu_event order by code") == [(31, 2), (43, 2)]


def test_a_file_that_cannot_show_a_signal_says_so(tmp_path: Path) -> None:
    settings = settings_from(
        {"store": {"telemetry": str(tmp_path / "t.duckdb"), "operations": str(tmp_path / "o.sqlite"),
                   "actions": str(tmp_path / "a.jsonl")}}, "test",
    )  # fmt: skip
    file = tmp_path / "metrics.txt"
    file.write_text('DCGM_FI_DEV_GPU_TEMP{gpu="3",Hostname="n00012"} 45\n')
    workplace = Workplace(settings=settings)
    workplace.ingest(workplace.source(str(file)), "test")
    (signals,) = source_report(workplace.telemetry, (RowRemapFailure(),)).signals.rows(named=True)
    assert signals["origin"] == str(file)
    assert "row_remap_failure" in signals["missing"]
    assert "temperature_celsius" not in signals["missing"]
    blind = source_report(workplace.telemetry, (RowRemapFailure(),)).blind
    assert blind.select("detector", "state").rows() == [("gpu.row_remap", "blind")]
