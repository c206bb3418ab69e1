from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest

from detectors.stats.scan import scan, toward, weight_of

BEGAN = datetime(2026, 3, 2, 9, tzinfo=UTC)
NOTHING = pl.DataFrame(schema={"entity": pl.String, "time": pl.Datetime("us", "UTC"), "total": pl.Float64})


def rows(*samples):
    times = [BEGAN + timedelta(seconds=second) for _, second, _ in samples]
    frame = pl.DataFrame(
        {"entity": [name for name, *_ in samples], "time": times, "value": [value for *_, value in samples]}
    )
    return frame.cast({"time": pl.Datetime("us", "UTC"), "value": pl.Float64}).sort("entity", "time")


def running_total(memory, sample):
    total = np.nan_to_num(memory["total"]) + np.nan_to_num(sample["value"])
    return {"total": total}, {"so_far": total}


def walk(frame, before=NOTHING):
    return scan(frame, before, inputs=("value",), memory=("total",), outputs=("so_far",), step=running_total)


def test_every_entity_walks_through_its_own_samples_in_order():
    walked, after = walk(rows(("b", 0, 10.0), ("a", 0, 1.0), ("a", 5, 2.0), ("b", 3, 20.0), ("a", 6, 4.0)))
    assert walked.select("entity", "so_far").rows() == [("a", 1.0), ("a", 3.0), ("a", 7.0), ("b", 10.0), ("b", 30.0)]
    assert walked["elapsed_seconds"].to_list() == [None, 5.0, 1.0, None, 3.0]
    assert after.select("entity", "total").rows() == [("a", 7.0), ("b", 30.0)]


def test_memory_is_taken_up_where_the_batch_before_left_it():
    _, first = walk(rows(("a", 0, 1.0), ("c", 0, 5.0)))
    walked, after = walk(rows(("a", 4, 2.0), ("b", 4, 7.0)), first)
    assert walked.select("entity", "so_far", "elapsed_seconds").rows() == [("a", 3.0, 4.0), ("b", 7.0, None)]
    assert after.select("entity", "total").rows() == [("a", 3.0), ("b", 7.0), ("c", 5.0)]
    assert (after["time"] - BEGAN).dt.total_seconds().to_list() == [4, 4, 0]


def test_no_rows_leave_the_memory_alone():
    _, first = walk(rows(("a", 0, 1.0)))
    walked, after = walk(rows(("a", 0, 1.0)).clear(), first)
    assert walked.is_empty()
    assert "so_far" in walked.columns
    assert after.equals(first)


def test_the_mean_starts_at_its_first_value_and_reaches_a_step_by_two_thirds_in_a_time_constant():
    mean = toward(np.array([np.nan]), np.array([0.0]), weight_of(np.array([np.nan]), 60.0))
    assert mean[0] == 0.0
    for _ in range(60):
        mean = toward(mean, np.array([1.0]), weight_of(np.array([1.0]), 60.0))
    # 1 - 1/e after one time constant, in the limit of short steps.
    assert mean[0] == pytest.approx(1 - np.exp(-1), abs=0.005)
