"""The door: good rows go on, others are kept with the rule they broke, and nothing that the data says can raise."""

from datetime import UTC, datetime

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.admission import Origin, admit
from schemas.tables import TABLE_BY_NAME, TABLES, Table, empty

GPU = TABLE_BY_NAME["gpu"]
START = datetime(2026, 3, 1, tzinfo=UTC)


def rows(**columns: object) -> pl.DataFrame:
    return pl.DataFrame({"time": [START], "node": ["n1"], "gpu": [0]} | columns, strict=False)


def test_a_good_row_goes_on_with_every_column_of_the_table() -> None:
    admitted = admit(GPU, rows(power_watts=[650.0]))
    assert admitted.rows.schema == GPU.columns
    assert admitted.rows["power_watts"].to_list() == [650.0]
    assert admitted.quarantined.is_empty()


def test_a_value_out_of_range_is_quarantined_under_its_rule_and_its_neighbours_go_on() -> None:
    frame = pl.DataFrame(
        {"time": [START] * 3, "node": ["n1"] * 3, "gpu": [0, 1, 2], "temperature_celsius": [50.0, 345.0, 51.0]}
    )
    admitted = admit(GPU, frame, Origin("topic", 2, 17))
    assert admitted.rows["gpu"].to_list() == [0, 2]
    refused = admitted.quarantined.to_dicts()[0]
    assert refused["rule"] == "temperature_celsius|max"
    assert (refused["topic"], refused["partition"], refused["offset"]) == ("topic", 2, 17)
    assert b"345" in refused["raw"]


@pytest.mark.parametrize("text", ["2026-03-01T00:00:00Z", "2026-03-01T01:00:00+01:00", "2026-03-01T00:00:00.000000Z"])
def test_times_in_rfc_3339_become_utc(text: str) -> None:
    assert admit(GPU, rows(time=[text])).rows["time"].to_list() == [START]


def test_an_integer_time_is_microseconds_since_the_epoch() -> None:
    assert admit(GPU, rows(time=[1_772_323_200_000_000])).rows["time"].to_list() == [START]


@pytest.mark.parametrize("value", [2**63 - 1, -1, "yesterday", ""])
def test_a_time_that_is_none_is_a_broken_rule(value: object) -> None:
    admitted = admit(GPU, rows(time=[value]))
    assert admitted.quarantined["rule"].to_list() == ["time|type"]
    assert "time" in str(admitted.quarantined)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_nan_and_infinity_become_null_because_tables_hold_no_sentinels(value: float) -> None:
    admitted = admit(GPU, rows(power_watts=[value]))
    assert admitted.rows["power_watts"].to_list() == [None]
    assert admitted.quarantined.is_empty()


def test_a_word_in_a_column_of_numbers_is_a_broken_rule_not_a_null() -> None:
    admitted = admit(GPU, rows(power_watts=["ERR!"]))
    assert admitted.rows.is_empty()
    assert admitted.quarantined["rule"].to_list() == ["power_watts|type"]


def test_half_a_gpu_is_no_slot() -> None:
    assert admit(GPU, rows(gpu=[1.5])).quarantined["rule"].to_list() == ["gpu|type"]


def test_a_word_that_the_column_does_not_know_is_quarantined() -> None:
    frame = pl.DataFrame({"time": [START], "pdu": ["pdu-1"], "breaker": ["exploded"]})
    assert admit(TABLE_BY_NAME["power"], frame).quarantined["rule"].to_list() == ["breaker|check__known_word"]


def test_unknown_columns_are_ignored_and_counted() -> None:
    assert admit(GPU, rows(colour=["red"])).ignored == {"colour": 1}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_no_rows_are_no_rows_for_every_table(table: Table) -> None:
    for frame in (empty(table), pl.DataFrame(), pl.DataFrame({"colour": []})):
        admitted = admit(table, frame)
        assert admitted.rows.schema == table.columns
        assert admitted.rows.is_empty()


anything = st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(max_size=20) | st.booleans()


@settings(max_examples=150, deadline=None)
@given(table=st.sampled_from(TABLES), data=st.data())
def test_every_row_is_either_admitted_or_quarantined_whatever_it_holds(table: Table, data: st.DataObject) -> None:
    height = data.draw(st.integers(1, 4))
    kind = st.sampled_from([pl.Int64, pl.Float64, pl.String, pl.Boolean])
    columns = {
        name: pl.Series(
            name, data.draw(st.lists(anything, min_size=height, max_size=height)), dtype=data.draw(kind), strict=False
        )
        for name in table.columns
    }
    admitted = admit(table, pl.DataFrame(columns))
    assert admitted.rows.height + admitted.quarantined.height == height
    assert admitted.quarantined["rule"].null_count() == 0
    assert table.schema.is_valid(admitted.rows), "admission has rules of its own, and misses one of the schema's"


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_table_has_rules_of_single_columns_only(table: Table) -> None:
    """Admission asks those, and knows no others."""
    assert table.schema._schema_validation_rules() == {}
