"""What every detector of the catalogue must do, whatever it looks for. A new one gets all of this by being there.

test_conformance_refuses.py shows that each check can fail.
"""

from collections import Counter
from dataclasses import fields, is_dataclass, replace
from datetime import timedelta

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detectors.catalog import CATALOG, ROWS_ALONE
from detectors.contract import FINDING_COLUMNS, Detection
from schemas.tables import TABLE_BY_SCHEMA, empty
from schemas.topology import LINK_COLUMNS, NODE_COLUMNS, topology_from_frames
from tests.detectors.conformance_checks import (
    check_cut,
    check_findings,
    check_inputs_unchanged,
    check_names_do_not_matter,
    check_order_of_rows,
    check_silent,
    check_state_bounded,
    check_state_survives_storage,
    check_survives,
    fault_of,
    first_in_time,
    same,
    with_tables,
)
from tests.detectors.streams import EVERY_TABLE, stream_of

# One worker takes all tests of a detector, so that its stream is simulated once.
every_detector = pytest.mark.parametrize(
    "detector",
    [pytest.param(each, id=each.name, marks=pytest.mark.xdist_group(each.name)) for each in CATALOG],
)
few = settings(
    max_examples=4, derandomize=True, deadline=None, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip


@every_detector
@few
@given(data=st.data())
def test_any_cut_of_the_stream_gives_the_same_findings_and_state(detector, data):
    stream, said_at = fault_of(detector)
    on_samples = st.sampled_from(stream.times(detector))
    near_it = st.timedeltas(timedelta(seconds=-60), timedelta(seconds=60)).map(
        lambda by: min(max(said_at + by, stream.began), stream.ends)
    )
    anywhere = st.floats(0, 1).map(lambda share: stream.began + share * (stream.ends - stream.began))
    check_cut(detector, stream, data.draw(st.lists(on_samples | near_it | anywhere, min_size=1, max_size=5)))


@every_detector
def test_batches_of_one_sample_time_give_the_same(detector):
    stream, said_at = fault_of(detector)
    times = stream.times(detector)
    near = next(number for number, time in enumerate(times) if time >= said_at) if times[-1] >= said_at else len(times)
    check_cut(detector, stream, times[max(0, near - 12) : near + 3])


@every_detector
def test_empty_batches_change_nothing(detector):
    stream, said_at = fault_of(detector)
    check_cut(detector, stream, [stream.began, stream.began, said_at, said_at, stream.ends])


@pytest.mark.parametrize("detector", [each for each in CATALOG if each.name in ROWS_ALONE], ids=lambda each: each.name)
def test_one_that_judges_rows_alone_need_not_be_asked_without_any(detector):
    stream, said_at = fault_of(detector)
    nothing = with_tables(stream, {table.name: empty(table) for table in EVERY_TABLE})
    for at in (stream.began, said_at, stream.ends):
        state = stream.step(detector, pl.DataFrame(schema=detector.keeps), stream.began, at).state
        later = nothing.step(detector, state, at, at + timedelta(hours=1))
        same(later, Detection(pl.DataFrame(schema=FINDING_COLUMNS), state))


@every_detector
def test_nothing_at_all_is_no_finding(detector):
    stream = stream_of("pump_failure", 60)
    nothing = with_tables(stream, {table.name: empty(table) for table in EVERY_TABLE})
    detection = nothing.run(detector)
    assert detection.findings.is_empty()
    assert detection.state.schema == detector.keeps
    assert detection.state.is_empty(), "who was told nothing knows nothing: the engine does not ask it without rows"


@every_detector
def test_nulls_in_every_reading_that_may_be_null(detector):
    stream, said_at = fault_of(detector)
    short = stream.since(said_at - timedelta(seconds=60))
    for schema in detector.reads:
        table = TABLE_BY_SCHEMA[schema]
        nullable = [name for name, column in schema.columns().items() if column.nullable]
        rows = short.tables[table.name]
        for names in ([name] for name in nullable):
            blank = rows.with_columns(pl.lit(None, rows.schema[name]).alias(name) for name in names)
            check_survives(detector, with_tables(short, {table.name: blank}))
        rows = stream.tables[table.name]
        blank = rows.with_columns(pl.lit(None, rows.schema[name]).alias(name) for name in nullable)
        check_survives(detector, with_tables(stream, {table.name: blank}))


@every_detector
def test_entities_that_no_topology_knows(detector):
    stream, _ = fault_of(detector)
    unknown = topology_from_frames("empty", pl.DataFrame(schema=NODE_COLUMNS), pl.DataFrame(schema=LINK_COLUMNS))
    check_survives(detector, replace(stream, topology=unknown))


@every_detector
def test_order_of_rows_at_one_instant_does_not_matter(detector):
    check_order_of_rows(detector, fault_of(detector)[0])


@every_detector
def test_names_of_entities_do_not_matter(detector):
    check_names_do_not_matter(detector, fault_of(detector)[0])


@every_detector
def test_inputs_are_left_as_they_were(detector):
    check_inputs_unchanged(detector, fault_of(detector)[0])


@every_detector
def test_state_survives_storage(detector):
    check_state_survives_storage(detector, *fault_of(detector))


@every_detector
def test_state_is_bounded(detector):
    check_state_bounded(detector, fault_of(detector)[0])


@every_detector
def test_findings_keep_the_schema(detector):
    stream, _ = fault_of(detector)
    check_findings(detector, stream, stream.run(detector))


@every_detector
def test_silent_on_a_healthy_cluster(detector):
    check_silent(detector, stream_of("healthy", 600))


@every_detector
def test_same_input_same_output(detector):
    stream, _ = fault_of(detector)
    same(stream.run(detector), stream.run(detector))


@every_detector
def test_finds_its_own_fault_within_its_deadline(detector):
    stream, said_at = fault_of(detector)
    assert said_at == first_in_time(stream, stream.run(detector).findings)


@every_detector
def test_is_a_frozen_record_of_thresholds_in_a_file_of_its_name(detector):
    assert is_dataclass(detector)
    assert type(detector).__dataclass_params__.frozen
    assert all(each.kw_only for each in fields(detector))
    assert type(detector).__module__ == f"detectors.{detector.name}"
    assert (type(detector).__doc__ or "").strip()


def test_names_are_unique():
    assert [name for name, times in Counter(detector.name for detector in CATALOG).items() if times > 1] == []
