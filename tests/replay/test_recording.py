from dataclasses import replace
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from replay.recording import (
    RecordingError,
    RecordingMeta,
    meta_of,
    read_labels,
    read_recording,
    write_recording,
)
from replay.scenario import parse_scenario
from replay.simulate import Window, labels, simulate, topology_of
from schemas.tables import TABLE_BY_NAME

BEGAN = datetime(2026, 3, 2, 9, tzinfo=UTC)
SCENARIO = parse_scenario(
    """
name = "small"
starts_at = 2026-03-02T09:00:00Z
duration_seconds = 100
[topology]
parameters = { pods = 1, superblocks_per_pod = 1, nodes_per_superblock = 2 }
[[fault]]
fault = "node_lost"
at_seconds = 50
entity = "n00001"
""",
    "small.toml",
)


def second(count):
    return BEGAN + timedelta(seconds=count)


def written(folder):
    topology = topology_of(SCENARIO)
    windows = list(simulate(SCENARIO, topology))
    rows = write_recording(folder, windows, topology, meta_of(SCENARIO, topology), labels(SCENARIO, topology))
    return windows, rows


def whole(windows):
    windows = list(windows)
    return {name: pl.concat([window.tables[name] for window in windows], how="diagonal") for name in TABLE_BY_NAME}


def power_folder(tmp_path, **columns):
    folder = tmp_path / "foreign"
    folder.mkdir()
    pl.DataFrame(columns).write_parquet(folder / "power.parquet")
    return folder


def test_what_is_written_is_read_again(tmp_path):
    windows, rows = written(tmp_path / "r")
    recording = read_recording(tmp_path / "r")
    told, again = whole(windows), whole(recording.windows)
    assert rows["gpu"] == told["gpu"].height
    for name in TABLE_BY_NAME:
        assert again[name].equals(told[name]), name


def test_the_description_and_the_cluster_survive(tmp_path):
    written(tmp_path / "r")
    recording, topology = read_recording(tmp_path / "r"), topology_of(SCENARIO)
    assert recording.meta == meta_of(SCENARIO, topology)
    assert recording.topology.name == topology.name, "actions on the whole cluster go by it"
    assert recording.topology.nodes.equals(topology.nodes)
    assert recording.topology.links.equals(topology.links)


def test_the_truth_survives(tmp_path):
    written(tmp_path / "r")
    assert read_labels(tmp_path / "r").equals(labels(SCENARIO, topology_of(SCENARIO)))


def test_a_recording_without_truth_has_no_labels(tmp_path):
    written(tmp_path / "r")
    (tmp_path / "r" / "labels.parquet").unlink()
    assert read_labels(tmp_path / "r").is_empty()


def test_reading_never_opens_the_labels(tmp_path):
    written(tmp_path / "r")
    (tmp_path / "r" / "labels.parquet").write_bytes(b"not a table")
    assert len(list(read_recording(tmp_path / "r").windows)) == 2


@pytest.mark.parametrize("window_seconds", [1, 7, 60, 1000])
def test_rows_do_not_depend_on_how_the_recording_is_cut(tmp_path, window_seconds):
    windows, _ = written(tmp_path / "r")
    again = whole(read_recording(tmp_path / "r", window_seconds=window_seconds).windows)
    assert again["heartbeat"].equals(whole(windows)["heartbeat"])


def test_a_folder_with_one_table_and_nothing_else_can_be_replayed(tmp_path):
    folder = power_folder(tmp_path, time=[second(0), second(5), second(10)], pdu=["p", "p", "p"])
    recording = read_recording(folder, window_seconds=5)
    assert recording.meta.intervals == {"power": 5.0}  # the median gap
    assert [window.tables["power"].height for window in recording.windows] == [1, 1, 1]
    assert recording.topology.nodes.is_empty()


def test_the_interval_is_estimated_per_source_not_over_all(tmp_path):
    times = [second(count) for count in (0, 1, 10, 11, 20, 21)]
    folder = power_folder(tmp_path, time=times, pdu=["p", "q"] * 3)
    assert read_recording(folder).meta.intervals == {"power": 10.0}


@pytest.mark.parametrize(
    "times",
    [
        ["2026-03-02T09:00:01Z", "2026-03-02T10:00:00+01:00"],
        [int(second(1).timestamp() * 1e6), int(second(0).timestamp() * 1e6)],
        [second(1).replace(tzinfo=None), second(0).replace(tzinfo=None)],
    ],
)
def test_times_may_be_text_integers_or_without_a_zone_and_in_any_order(tmp_path, times):
    folder = power_folder(tmp_path, time=times, pdu=["later", "first"])
    windows = list(read_recording(folder, window_seconds=1).windows)
    assert [window.tables["power"]["pdu"].to_list() for window in windows] == [["first"], ["later"]]


def test_extra_columns_are_handed_on_for_admission_to_count(tmp_path):
    folder = power_folder(tmp_path, time=[second(0)], pdu=["p"], colour=["red"])
    (window,) = read_recording(folder).windows
    assert window.tables["power"].columns == ["time", "pdu", "colour"]


def test_a_row_whose_time_cannot_be_read_is_not_lost(tmp_path):
    folder = power_folder(tmp_path, time=["2026-03-02T09:00:00Z", "yesterday"], pdu=["p", "q"])
    windows = list(read_recording(folder).windows)
    assert sum(window.tables["power"].height for window in windows) == 2


def test_arrived_at_replays_the_order_of_arrival(tmp_path):
    folder = power_folder(
        tmp_path,
        time=[second(0), second(1), second(2)],
        pdu=["p", "p", "p"],
        watts=[0.0, 1.0, 2.0],
        arrived_at=[second(0), second(7), second(2)],
    )
    windows = list(read_recording(folder, window_seconds=5).windows)
    assert [window.tables["power"]["watts"].to_list() for window in windows] == [[0.0, 2.0], [1.0]]
    assert "arrived_at" not in windows[0].tables["power"].columns


def test_an_existing_folder_is_not_overwritten(tmp_path):
    written(tmp_path / "r")
    with pytest.raises(RecordingError, match="there already"):
        written(tmp_path / "r")


def test_tables_without_rows_are_not_written(tmp_path):
    empty_window = Window(BEGAN, second(1), {name: pl.DataFrame(schema=t.columns) for name, t in TABLE_BY_NAME.items()})
    topology = topology_of(SCENARIO)
    meta = replace(meta_of(SCENARIO, topology), ends_at=second(1))
    assert write_recording(tmp_path / "r", [empty_window], topology, meta) == {}
    assert not list((tmp_path / "r").glob("*.parquet"))


def test_a_name_with_quotes_survives(tmp_path):
    folder, topology = tmp_path / "r", topology_of(SCENARIO)
    meta = RecordingMeta(name='a "quoted"\nname', cluster="c", starts_at=BEGAN, ends_at=second(60), intervals={})
    write_recording(folder, [next(simulate(SCENARIO, topology))], topology, meta)
    assert read_recording(folder).meta.name == 'a "quoted"\nname'


def break_nothing_there(folder):
    folder.rmdir()


def break_empty(folder):
    """An empty folder is broken enough."""


def break_parquet(folder):
    (folder / "gpu.parquet").write_bytes(b"PAR1 but not really")


def break_no_time(folder):
    pl.DataFrame({"pdu": ["p"]}).write_parquet(folder / "power.parquet")


def break_toml(folder):
    pl.DataFrame({"time": [BEGAN], "pdu": ["p"]}).write_parquet(folder / "power.parquet")
    (folder / "recording.toml").write_text("name = ")


def break_bounds(folder):
    pl.DataFrame({"time": [BEGAN], "pdu": ["p"]}).write_parquet(folder / "power.parquet")
    (folder / "recording.toml").write_text("starts_at = 2026-01-02T00:00:00Z\nends_at = 2026-01-01T00:00:00Z\n")


def break_nodes(folder):
    pl.DataFrame({"time": [BEGAN], "pdu": ["p"]}).write_parquet(folder / "power.parquet")
    (folder / "nodes.csv").write_text("host,pod\na,b\n")


def break_span(folder):
    times = [BEGAN, datetime(1970, 1, 1, tzinfo=UTC)]
    pl.DataFrame({"time": times, "pdu": ["p", "p"]}).write_parquet(folder / "power.parquet")


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (break_nothing_there, "no such folder"),
        (break_empty, "holds no table"),
        (break_parquet, "gpu.parquet is not Parquet"),
        (break_no_time, "power.parquet has no column 'time'"),
        (break_toml, "recording.toml is not TOML"),
        (break_bounds, "is not after starts_at"),
        (break_nodes, "column node is missing"),
        (break_span, "rows span"),
    ],
)
def test_a_broken_folder_is_one_clear_line(tmp_path, broken, said):
    folder = tmp_path / "broken"
    folder.mkdir()
    broken(folder)
    with pytest.raises(RecordingError) as caught:
        read_recording(folder)
    assert said in str(caught.value)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["nodes.csv", "recording.toml", "gpu.parquet", "labels.parquet"])
def test_what_has_the_name_of_a_file_and_is_none_is_refused(name, tmp_path):
    folder = power_folder(tmp_path, time=[BEGAN], pdu=["pdu-001"], watts=[1.0])
    (folder / name).mkdir()
    with pytest.raises(RecordingError, match=rf"foreign: {name} is no file"):
        read_labels(folder) if name == "labels.parquet" else read_recording(folder)
