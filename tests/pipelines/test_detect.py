"""`hotspare detect` on tables that users bring: what it answers, and how it refuses."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from pipelines.cli.detect import detect
from pipelines.cli.output import Refused

BEGAN = datetime(2026, 3, 1, tzinfo=UTC)
FIT = "2026-03-01T00:00:00Z..2026-03-01T00:05:00Z"
FAULT_ROW = 450


def table(rows: int = 600, entities: int = 1, faulty: int = 0) -> pl.DataFrame:
    """One row a second; the flow of one entity falls by three deviations at FAULT_ROW. Several share a slow swing."""
    rng = np.random.default_rng(5)
    swing = np.cumsum(rng.normal(0, 1, rows))
    frames = []
    for number in range(entities):
        flow = rng.normal(50.0, 2.0, rows) + (swing if entities > 1 else 0)
        flow[FAULT_ROW:] -= 6.0 * (number == faulty)
        times = [BEGAN + timedelta(seconds=second) for second in range(rows)]
        frames.append(
            pl.DataFrame({"time": times, "pump": f"p{number}", "flow": flow, "heat": rng.normal(30, 1, rows)})
        )
    return pl.concat(frames)


def answer(capsys: pytest.CaptureFixture[str], path: Path, fit_on: str = FIT, **options: Any) -> tuple[int, Any]:
    given = {"entity": None, "time": None, "group": None, "columns": None, "window": 15, **options}
    code = detect(path, fit_on, **given, as_json=True)
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("kind", ["csv", "semicolons", "parquet"])
def test_every_row_has_a_score_and_the_fault_alarms(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    frame, path = table(), tmp_path / ("t.parquet" if kind == "parquet" else "t.csv")
    if kind == "parquet":
        frame.write_parquet(path)
    else:
        frame.write_csv(path, separator=";" if kind == "semicolons" else ",")
    code, said = answer(capsys, path, entity="pump")
    assert code == 1
    assert [row["entity"] for row in said["scores"]] == ["p0"] * 600
    assert all(row["alarm"] == (row["score"] >= said["threshold"]) for row in said["scores"])
    assert not any(row["alarm"] for row in said["scores"][300:FAULT_ROW])
    assert all(row["alarm"] for row in said["scores"][FAULT_ROW + 15 :])
    (alarm,) = [each for each in said["alarms"] if each["last"] > each["first"]]
    assert alarm["columns"][0] == "flow"
    assert abs(datetime.fromisoformat(alarm["began"]) - BEGAN - timedelta(seconds=FAULT_ROW)) < timedelta(seconds=15)


def test_peers_show_who_leaves_the_group_though_all_of_it_swings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = table(entities=5, faulty=3).with_columns(rack=pl.lit("r1"))
    frame.write_parquet(tmp_path / "t.parquet")
    _, said = answer(capsys, tmp_path / "t.parquet", entity="pump", group="rack")
    rows = pl.DataFrame(said["scores"]).with_columns(late=pl.int_range(pl.len()).over("entity") >= FAULT_ROW + 15)
    share = {row["entity"]: row["alarm"] for row in rows.filter("late").group_by("entity").agg(pl.col("alarm").mean())
             .to_dicts()}  # fmt: skip
    assert share["p3"] > 0.95
    assert all(rate < 0.1 for who, rate in share.items() if who != "p3")


def test_a_label_column_is_left_out_when_it_is_constant_in_the_history(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = table().drop("pump").with_columns(anomaly=(pl.int_range(pl.len()) >= FAULT_ROW).cast(pl.Float64))
    frame.write_csv(tmp_path / "t.csv")
    _, said = answer(capsys, tmp_path / "t.csv")
    assert said["left_out"] == ["anomaly"]
    assert said["columns"] == ["flow", "heat"]


def _with_cell(name: str, row: int, value: object) -> Callable[[pl.DataFrame], pl.DataFrame]:
    return lambda frame: frame.with_columns(
        pl.when(pl.int_range(pl.len()) == row).then(pl.lit(value)).otherwise(pl.col(name)).alias(name)
    )


SPOILED: tuple[tuple[str, Callable[[pl.DataFrame], pl.DataFrame], dict[str, Any], str], ...] = (
    ("a missing column", lambda t: t, {"entity": "pumpe"}, "--entity pumpe: there is no such column"),
    ("a missing value", _with_cell("flow", 7, None), {}, "column 'flow' has 1 cells without a finite number"),
    ("not a number", _with_cell("flow", 7, float("nan")), {}, "column 'flow' has 1 cells without a finite number"),
    ("text", lambda t: t.with_columns(state=pl.lit("on")), {}, "column 'state' is String, not a number"),
    ("no order", lambda t: t.reverse(), {}, "sort the table by time"),
    ("repeats", lambda t: pl.concat([t[:9], t[8:]]), {}, "comes twice: one row an entity and time is wanted"),
    ("nothing moves", lambda t: t.with_columns(flow=1.0, heat=2.0), {}, "all columns are constant in the history"),
    ("little history", lambda t: t[250:], {}, "50 rows of history are too few: 180 are needed"),
    ("no rows", lambda t: t[:0], {}, "has no rows"),
    ("a fault in the history", lambda t: t.with_columns(flow=pl.col("flow") + 40 * (pl.int_range(pl.len()) > 180)), {},
     "flow steps to another level at row 1"),
    ("no such group", lambda t: t.with_columns(rack=pl.lit("r1")), {"group": "rack"}, "has 1 members at"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("spoil", "options", "line"), [each[1:] for each in SPOILED], ids=[each[0] for each in SPOILED]
)
def test_a_table_that_cannot_be_judged_is_refused_in_one_line(
    tmp_path: Path, spoil: Callable[[pl.DataFrame], pl.DataFrame], options: dict[str, Any], line: str
) -> None:
    spoil(table()).write_parquet(tmp_path / "t.parquet")
    given = {"entity": "pump", "time": None, "group": None, "columns": None, "window": 15, **options}
    with pytest.raises(Refused) as refused:
        detect(tmp_path / "t.parquet", FIT, **given)
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("fit_on", "line"),
    [
        ("yesterday", "write FROM..TO"),
        ("2026-03-01T00:05:00Z..2026-03-01T00:00:00Z", "ends before it begins"),
        ("soon..later", "'soon' is not a time like"),
        ("2030-01-01T00:00:00Z..2030-01-02T00:00:00Z", "no row lies in the history"),
    ],
)
def test_a_wrong_history_is_refused_in_one_line(tmp_path: Path, fit_on: str, line: str) -> None:
    table().drop("pump").write_parquet(tmp_path / "t.parquet")
    with pytest.raises(Refused, match=line):
        detect(tmp_path / "t.parquet", fit_on, entity=None, time=None, group=None, columns=None, window=15)
