"""Sealing an hour moves rows and changes no answer, whenever it is cut short."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from pipelines import segments as module
from pipelines.engine import Step
from pipelines.segments import drop_older, seal
from pipelines.telemetry_schema import STORED
from pipelines.telemetry_store import TelemetryStore
from schemas.admission import QUARANTINE_COLUMNS
from tests.pipelines.telemetry_rows import at, batch, engine, gpu_row, gpu_rows, rows, steps

HOUR = 3600


@pytest.fixture
def store(tmp_path: Path) -> TelemetryStore:
    """Rows of three hours from 09:00 on, one of them late, a list column, and a message without a time."""
    made = TelemetryStore(tmp_path / "telemetry.duckdb")
    made.flush("kafka", given(), {})
    return made


def given() -> list[Step]:
    refused = pl.DataFrame(
        {"rule": ["message|json"], "reason": ["no JSON"], "raw": [b"\x00{"]}, schema_overrides=dict(QUARANTINE_COLUMNS)
    ).select(
        pl.col(name) if name in ("rule", "reason", "raw") else pl.lit(None, dtype).alias(name)
        for name, dtype in QUARANTINE_COLUMNS.items()
    )
    trace = rows("otdr_trace", [{"time": at(30), "cable": "c1", "fiber": "1", "samples_db": [0.5, -2.0]}])
    spread = gpu_rows(*(gpu_row(600 * n, gpu=n % 3, celsius=95) for n in range(18)), gpu_row(5))
    return steps(engine(), batch(4 * HOUR, quarantined=refused, gpu=spread, otdr_trace=trace))


def everything(store: TelemetryStore) -> dict[str, list[tuple[Any, ...]]]:
    return {name: sorted(store.query(f"select * from {name}").rows(), key=repr) for name, _ in STORED}


def live(store: TelemetryStore, table: str) -> int:
    return int(store.query(f"select count(*) as n from live.{table}")["n"][0])


def test_only_whole_hours_that_are_over_are_sealed(store: TelemetryStore) -> None:
    sealed = seal(store, at(2 * HOUR + 1800))
    assert {(one.hour, one.rows) for one in sealed if one.table == "gpu"} == {(at(0), 6), (at(HOUR), 6)}
    assert live(store, "gpu") == 6
    assert seal(store, at(2 * HOUR + 1800)) == ()


def test_an_hour_is_over_at_its_last_instant(store: TelemetryStore) -> None:
    assert [one for one in seal(store, at(HOUR - 0.000001)) if one.table == "gpu"] == []
    assert [one.rows for one in seal(store, at(HOUR)) if one.table == "gpu"] == [6]


def test_every_answer_is_the_same_before_and_after(store: TelemetryStore) -> None:
    before = everything(store)
    assert seal(store, at(5 * HOUR))
    assert everything(store) == before
    assert live(store, "gpu") == 0
    assert store.window("gpu", at(HOUR), at(2 * HOUR)).height == 6


def test_segments_are_parquet_with_zstd_that_anyone_can_read(store: TelemetryStore) -> None:
    [one] = [one for one in seal(store, at(HOUR)) if one.table == "gpu"]
    path = store.segments / one.file
    assert pl.read_parquet(path).height == 6
    codecs = duckdb.sql(f"select distinct compression from parquet_metadata('{path}')").fetchall()
    assert codecs == [("ZSTD",)]
    assert path.stat().st_size == one.bytes


def test_rows_that_come_for_a_sealed_hour_become_another_part_of_it(store: TelemetryStore) -> None:
    seal(store, at(5 * HOUR))
    more = steps(engine(), batch(5 * HOUR, gpu=gpu_rows(gpu_row(90, node="n00001"))))
    store.flush("other", more, {})
    before = everything(store)
    [part] = [one for one in seal(store, at(5 * HOUR)) if one.table == "gpu"]
    assert part.file == "gpu/2026-03-02T09.1.parquet"
    assert everything(store) == before
    assert len(before["gpu"]) == 19


def test_messages_without_a_time_are_sealed_with_the_newest_hour(store: TelemetryStore) -> None:
    [one] = [one for one in seal(store, at(5 * HOUR + 10)) if one.table == "quarantine"]
    assert one.hour == at(4 * HOUR)
    assert live(store, "quarantine") == 0
    drop_older(store, at(5 * HOUR))
    assert store.query("select * from quarantine").is_empty()


@pytest.mark.parametrize("where", ["_write", "transaction", "span_views"])
def test_a_crash_while_sealing_loses_nothing_and_repeats_nothing(
    store: TelemetryStore, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    before = everything(store)
    original = getattr(module, where)
    for survived in range(4):
        left = [survived]

        def crash(*arguments: Any, left: list[int] = left) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
            return original(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(module, where, crash)
            with pytest.raises(KeyboardInterrupt):
                seal(store, at(5 * HOUR))
        assert everything(store) == before
    seal(store, at(5 * HOUR))
    assert everything(store) == before
    assert live(store, "gpu") == 0


def test_a_half_written_file_is_written_over(store: TelemetryStore) -> None:
    folder = store.segments / "gpu"
    folder.mkdir(parents=True)
    (folder / "2026-03-02T09.0.parquet").write_bytes(b"half")
    (folder / "2026-03-02T09.0.writing").write_bytes(b"half")
    before = everything(store)
    seal(store, at(HOUR))
    assert everything(store) == before
    assert not list(folder.glob("*.writing"))


def test_retention_drops_whole_segments_and_leaves_the_rest(store: TelemetryStore) -> None:
    seal(store, at(5 * HOUR))
    dropped = drop_older(store, at(HOUR))
    assert "gpu/2026-03-02T09.0.parquet" in dropped
    assert not (store.segments / "gpu/2026-03-02T09.0.parquet").exists()
    times: list[datetime] = store.query("select time from gpu order by time")["time"].to_list()
    assert len(times) == 12
    assert times[0] == at(0) + timedelta(hours=1)
    assert drop_older(store, at(HOUR)) == ()


def test_a_flush_between_two_seals_is_seen_with_what_is_sealed(store: TelemetryStore) -> None:
    seal(store, at(HOUR))
    store.flush("other", steps(engine(), batch(9 * HOUR, gpu=gpu_rows(gpu_row(8 * HOUR)))), {})
    assert store.query("select count(*) as n, max(time) as newest from gpu").row(0) == (19, at(8 * HOUR))
