"""Arrivals in larger bites, and one of them ahead."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from pipelines.engine import Batch
from pipelines.pacing import window_seconds
from pipelines.sources.contract import Arrival, SourceError
from pipelines.sources.gathered import ahead, gathered
from schemas.topology_presets import build

T0 = datetime(2026, 3, 2, 9, tzinfo=UTC)


def arrival(minute: int, rows: int, lag: float = 0.0) -> Arrival:
    frame = pl.DataFrame({"watts": [float(minute)] * rows})
    lags = {"n1": timedelta(seconds=lag)} if lag else {}
    batch = Batch(tables={"power": frame}, now=T0 + timedelta(minutes=minute), lags=lags)
    return Arrival(batch=batch, offsets={("time", 0): minute}, ignored={"power.colour": 1})


def test_arrivals_come_together_up_to_so_many_rows_and_keep_their_order() -> None:
    first, second = gathered(iter([arrival(1, 2), arrival(2, 2), arrival(3, 2)]), rows=4)
    assert first.batch.tables["power"]["watts"].to_list() == [1, 1, 2, 2]
    assert (first.batch.now, first.offsets, first.ignored) == (
        T0 + timedelta(minutes=2), {("time", 0): 2}, {"power.colour": 2},
    )  # fmt: skip
    assert second.batch.tables["power"]["watts"].to_list() == [3, 3]


def test_what_is_said_of_a_whole_step_stays_apart() -> None:
    found = list(gathered(iter([arrival(1, 1), arrival(2, 1, lag=5.0)]), rows=10))
    assert [each.batch.lags for each in found] == [{}, {"n1": timedelta(seconds=5)}]


def test_what_is_longer_than_an_hour_stays_apart() -> None:
    found = list(gathered(iter([arrival(minute, 1) for minute in (0, 30, 60, 90)]), rows=10))
    assert [each.batch.tables["power"].height for each in found] == [2, 2]


def test_what_goes_wrong_while_reading_ahead_is_told_where_it_is_used() -> None:
    def broken() -> Iterator[Arrival]:
        yield arrival(1, 1)
        raise SourceError("gone")

    found = ahead(broken())
    assert next(found).offsets == {("time", 0): 1}
    with pytest.raises(SourceError, match="gone"):
        next(found)


@pytest.mark.parametrize(("pods", "seconds"), [(4, 120), (8, 120), (24, 40), (96, 10)])
def test_an_arrival_of_a_large_cluster_covers_less_time(pods: int, seconds: int) -> None:
    """1,024 GPUs a pod: no arrival holds more than 40 s of the reference cluster."""
    assert window_seconds(None, build("ndr-fat-tree", pods=pods)) == seconds
