"""A backtest over a store: the same as judging each settings alone, over gaps and sealed hours, within bounds."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from pipelines import backtest as backtest_module
from pipelines import backtest_pass
from pipelines.backtest import backtest, differing, proposed
from pipelines.backtest_pass import pass_over
from pipelines.cli.backtest import moment_of, run_backtest
from pipelines.cli.output import Refused
from pipelines.counterfactual import differences
from pipelines.operations_store import OperationsStore
from pipelines.rejudge import COMPARED, rejudge
from pipelines.segments import seal
from pipelines.settings import Settings, SettingsError, configured, settings_from
from pipelines.sources.choose import scenario_source
from pipelines.sources.windows import WindowSource
from pipelines.stored_rows import NothingStored, Stretch, by_stream, stretches, windows
from pipelines.stream import Responder, Stream
from pipelines.telemetry_store import TelemetryStore, append
from replay.scenario import load_scenario
from replay.simulate import Window
from tests.pipelines.small_scenario import BLIND, SCENARIO
from tests.pipelines.telemetry_rows import rows
from tests.pipelines.test_backtest_verdict import DEAD

T0 = datetime(2026, 3, 2, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("scenario") / "small.toml"
    path.write_text(SCENARIO)
    return scenario_source(load_scenario(str(path)))


@pytest.fixture(scope="module")
def stores(source, tmp_path_factory):
    """What a stopped pump left in both stores."""
    folder = tmp_path_factory.mktemp("stores")
    telemetry = TelemetryStore(folder / "t.duckdb")
    operations = OperationsStore.open(folder / "o.sqlite")
    answer = Responder(operations=operations, settings=Settings().recovery.rehearsal(), executors={})
    Stream(source=source, detectors=configured(Settings()), responder=answer, store=telemetry).run()
    yield telemetry, operations
    operations.close()


@pytest.fixture
def blind():
    return proposed(BLIND, Settings())


def test_both_settings_in_one_pass_give_what_each_gives_alone(source, blind):
    alone = rejudge(source, Settings()), rejudge(source, blind)
    passed = pass_over([source], Settings(), blind, T0)
    together = passed.before, passed.after
    for one, other in zip(alone, together, strict=True):
        assert other.incidents.keys() == one.incidents.keys()
        assert {each.request.id for each in other.actions} == {each.request.id for each in one.actions}
    assert differences(*together) == differences(*alone)
    only_before = alone[0].findings.select(COMPARED).join(
        alone[1].findings.select(COMPARED), on=COMPARED, how="anti", nulls_equal=True
    )  # fmt: skip
    assert not only_before.is_empty()
    assert passed.before.findings.sort(COMPARED).equals(only_before.sort(COMPARED))


def test_what_is_open_where_a_stretch_ends_ends_there(source):
    later = T0 + timedelta(days=3)
    power = rows("power", [{"time": later, "pdu": "pdu-00", "watts": 1.0}])
    quiet = WindowSource(
        stream="later", topology=source.topology, intervals_seconds=source.intervals_seconds, span_seconds=60.0,
        windows=lambda: iter([Window(later, later + timedelta(minutes=1), {"power": power})]),
    )  # fmt: skip
    passed = pass_over([source, quiet], Settings(), Settings(), T0)
    for each in (passed.before, passed.after):
        (pump,) = (one for one in each.incidents.values() if one.cause == "coolant_pump_failure")
        assert (pump.state, pump.ends_at) == ("firing", T0 + timedelta(seconds=120))


def test_stored_findings_beyond_the_bound_are_counted_and_said(stores, monkeypatch):
    monkeypatch.setattr(backtest_module, "FINDINGS_KEPT_MAXIMUM", 0)
    result = backtest(*stores, Settings(), None, since=T0, until=T0 + HOUR)
    further = stores[0].query("select count(*) as n from findings")["n"][0]
    assert further > 0
    assert f"{further} further findings were not kept" in result.remarks[-1]


def test_findings_that_are_kept_have_a_bound_and_the_rest_is_counted(monkeypatch):
    monkeypatch.setattr(backtest_pass, "FINDINGS_KEPT_MAXIMUM", 3)
    kept = backtest_pass.Kept()
    for _ in range(2):
        kept.add(pl.DataFrame({name: [None, None] for name in COMPARED}, schema=backtest_pass.FINDINGS_SCHEMA))
    assert (kept.rows, kept.dropped) == (3, 1)


def test_the_command_writes_its_report_tells_how_far_it_is_and_ends_with_1_for_a_miss(stores, tmp_path, capsys):
    telemetry, operations = stores
    current, given, report = (tmp_path / name for name in ("current.toml", "blind.toml", "report.json"))
    where = operations.database.where
    current.write_text(f'[store]\ntelemetry = "{telemetry.path}"\noperations = "{where}"\n')
    given.write_text(BLIND)
    ended = run_backtest(
        settings=given, since="2026-03-02T09:00:00Z", until="2026-03-02T10:00:00Z", current=str(current), to=report
    )
    assert ended == 1
    found = json.loads(report.read_text())
    assert [one["result"] for one in found["incidents"]] == ["newly missed"]
    assert "coolant.pump_failure" in found["incidents"][0]["finding"]
    assert found["window"]["watched_seconds"] == pytest.approx(120, abs=1)
    said = capsys.readouterr()
    assert said.err.splitlines()[-1].startswith("backtest: 100 %")
    assert said.out.splitlines()[-1].startswith("Verdict: worse: caught 0 of 1; 1 newly missed")


def test_a_window_of_which_nothing_is_stored_is_one_line_with_what_is(stores):
    with pytest.raises(NothingStored, match=r"it holds hours from 2026-03-02T09:00Z to"):
        backtest(*stores, Settings(), Settings(), since=T0 + 5 * HOUR, until=T0 + 6 * HOUR)


def with_power_at(store: TelemetryStore, *moments: datetime) -> None:
    with store.connected() as connection:
        append(connection, "live.power", rows("power", [{"time": moment, "pdu": "pdu-1"} for moment in moments]))


def test_a_new_stretch_begins_behind_an_hour_without_rows(tmp_path):
    store = TelemetryStore(tmp_path / "t.duckdb")
    with_power_at(store, T0, T0 + HOUR / 2, T0 + HOUR, T0 + 3 * HOUR)
    found = stretches(store, T0 - HOUR, T0 + 10 * HOUR)
    instant = timedelta(microseconds=1)
    assert found == (
        Stretch(T0, T0 + HOUR + instant), Stretch(T0 + 3 * HOUR, T0 + 3 * HOUR + instant),
    )  # fmt: skip


def test_a_new_stretch_begins_where_a_stream_did_unless_another_was_under_way():
    minutes = [T0 + timedelta(minutes=minute) for minute in range(60)]
    whole = Stretch(minutes[5], minutes[50])
    alone = [(minutes[0], minutes[20]), (minutes[30], minutes[55])]
    assert list(by_stream(whole, alone)) == [Stretch(minutes[5], minutes[20]), Stretch(minutes[30], minutes[50])]
    beside = [(minutes[0], minutes[55]), (minutes[30], minutes[40])]
    assert list(by_stream(whole, beside)) == [whole]
    assert list(by_stream(whole, [])) == [whole]
    later = [(minutes[0], minutes[2]), (minutes[10], minutes[55])]
    assert list(by_stream(whole, later)) == [Stretch(minutes[10], minutes[50])]


def test_what_people_told_of_an_hour_does_not_make_it_a_watched_one(tmp_path):
    store = TelemetryStore(tmp_path / "t.duckdb")
    with_power_at(store, T0, T0 + 2 * HOUR)
    with store.connected() as connection:
        append(connection, "live.outside_event", rows("outside_event", [{"time": T0 + 1.5 * HOUR, "kind": "deploy"}]))
    for _ in ("live", "sealed"):
        assert [one.begins_at for one in stretches(store, T0, T0 + 3 * HOUR)] == [T0, T0 + 2 * HOUR]
        seal(store, before=T0 + 3 * HOUR)


def test_a_past_incident_of_an_hour_that_is_not_stored_is_not_judged_and_that_is_said(tmp_path):
    store, operations = TelemetryStore(tmp_path / "t.duckdb"), OperationsStore.open(":memory:")
    with_power_at(store, T0, T0 + 2 * HOUR)
    operations.upsert_incidents([replace(DEAD, detected_at=T0 + 1.5 * HOUR)], at=T0 + 1.5 * HOUR)
    result = backtest(store, operations, Settings(), None, since=T0, until=T0 + 3 * HOUR)
    operations.close()
    assert result.verdict.fates == ()
    assert "1 of what was wrong came up in time that is not read, and is not judged" in result.remarks


def test_an_hour_that_the_window_only_touches_may_hold_no_row_of_it(tmp_path):
    store = TelemetryStore(tmp_path / "t.duckdb")
    with_power_at(store, T0, T0 + 1.5 * HOUR)
    assert stretches(store, T0, T0 + 1.2 * HOUR) == (Stretch(T0, T0 + timedelta(microseconds=1)),)


def test_windows_read_live_and_sealed_hours_alike(tmp_path):
    store = TelemetryStore(tmp_path / "t.duckdb")
    moments = tuple(T0 + timedelta(minutes=minutes) for minutes in (10, 50, 70, 130))
    with_power_at(store, *moments)
    stretch = Stretch(T0 + timedelta(minutes=20), T0 + timedelta(minutes=131))

    def times():
        found = [window.tables["power"]["time"].to_list() for window in windows(store, stretch, 3600)]
        return [moment for each in found for moment in each]

    live = times()
    assert live == list(moments[1:])
    seal(store, before=T0 + 2 * HOUR)
    with_power_at(store, T0 + timedelta(minutes=30))  # late for a sealed hour: it stays live
    assert times() == sorted([*live, T0 + timedelta(minutes=30)])


def test_windows_grow_while_they_hold_few_rows_and_shrink_again(tmp_path):
    store = TelemetryStore(tmp_path / "t.duckdb")
    many = [T0 + timedelta(minutes=8, seconds=second) for second in range(100)]
    with_power_at(store, T0, *many, T0 + timedelta(minutes=59))
    found = list(windows(store, Stretch(T0, T0 + HOUR), 120, rows=10))
    lengths = [(window.ends_at - window.starts_at).total_seconds() / 60 for window in found]
    assert lengths == [2, 4, 8, 4, 8, 16, 18]  # the third holds the hundred; the last ends with the stretch
    assert sum(window.tables["power"].height for window in found) == 102


def test_what_differs_is_told_with_the_defaults(blind):
    assert differing(blind, blind) == ()
    assert differing(Settings(), blind) == (
        "detectors.coolant.pump_failure.flow_drop: 0.3 -> 0.99",
        "detectors.coolant.pump_failure.pump_drop: 0.15 -> 0.99",
        "detectors.coolant.pump_failure.power_drop: 0.4 -> 0.99",
    )


def test_toml_changes_some_of_the_current_settings_and_keeps_the_others():
    current = settings_from({"detectors": {"gpu.thermal_throttle": {"sustained_seconds": 7}}}, "test")
    given = proposed(BLIND, current)
    assert given.detectors["gpu.thermal_throttle"] == {"sustained_seconds": 7}
    assert given.detectors["coolant.pump_failure"]["flow_drop"] == 0.99
    assert proposed("", current) is current


@pytest.mark.parametrize("form", ["path", "TOML"])
def test_of_chosen_settings_only_what_is_judged_takes_the_place_of_the_current(form, tmp_path):
    current = settings_from({"store": {"telemetry": "mine.duckdb"}, "topology": {"preset": "ndr-fat-tree"}}, "test")
    text = f'[store]\ntelemetry = "theirs.duckdb"\n[bundles]\nafter_seconds = 1\n[recovery]\nmode = "observe"\n{BLIND}'
    (tmp_path / "given.toml").write_text(text)
    given = proposed(str(tmp_path / "given.toml") if form == "path" else text, current)
    assert (given.recovery.mode, given.detectors["coolant.pump_failure"]["flow_drop"]) == ("observe", 0.99)
    assert given.model_copy(update={"recovery": current.recovery, "detectors": current.detectors}) == current


@pytest.mark.parametrize("text", ["[detectors", "nowhere.toml", '[detectors."gpu.xidd"]\nx = 1'])
def test_settings_that_cannot_be_read_are_one_line(text):
    with pytest.raises(SettingsError, match=r"^[^\n]+$"):
        proposed(text, Settings())


@pytest.mark.parametrize(
    ("text", "moment"),
    [("30d", T0 - timedelta(days=30)), ("1.5h", T0 - timedelta(hours=1.5)), ("2026-03-01", T0 - timedelta(hours=33)),
     ("2026-03-01T08:00:00+02:00", T0 - timedelta(hours=27))],
)  # fmt: skip
def test_since_is_a_time_or_so_long_before_the_end(text, moment):
    assert moment_of(text, T0, "--since") == moment


@pytest.mark.parametrize("text", ["yesterday", "30", "99999999999d", "0001-01-01"])
def test_a_since_that_is_neither_is_refused(text):
    with pytest.raises(Refused, match="--since"):
        moment_of(text, T0, "--since")
