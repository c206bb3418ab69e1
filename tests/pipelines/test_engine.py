"""One step of the engine: lateness, repeats, the watermark, and that cutting the stream changes none of it."""

from datetime import timedelta
from typing import Any

import msgspec
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from pipelines.engine import Step
from schemas.admission import QUARANTINE_COLUMNS
from tests.pipelines.telemetry_rows import at, batch, engine, gpu_row, gpu_rows, rows, steps

ARRIVALS = st.lists(
    st.tuples(
        st.integers(0, 40).map(lambda tenth: tenth / 10), st.sampled_from(["n00000", "n00001"]), st.integers(0, 1),
        st.sampled_from([50.0, 95.0]),
    ),
    max_size=25,
)  # fmt: skip


def accepted(made: list[Step]) -> pl.DataFrame:
    return pl.concat([gpu_rows(), *(step.accepted["gpu"] for step in made if "gpu" in step.accepted)])


def late(made: list[Step]) -> pl.DataFrame:
    return pl.concat([step.late for step in made])


def test_a_row_more_than_a_second_behind_its_source_is_late_and_kept_whole() -> None:
    made = steps(engine(), batch(0, gpu=gpu_rows(gpu_row(5), gpu_row(4, gpu=1), gpu_row(3.999, gpu=2, celsius=70.5))))
    assert accepted(made)["gpu"].to_list() == [0, 1]
    [row] = late(made).to_dicts()
    assert (row["table"], row["source"], row["time"], row["behind_seconds"]) == ("gpu", "n00000", at(3.999), 1.001)
    assert msgspec.json.decode(row["row"])["temperature_celsius"] == 70.5


def test_an_event_may_not_be_behind_its_source_at_all() -> None:
    said = [(5, 79), (5, 63), (4.9, 48)]
    events = rows("gpu_event", [{"time": at(s), "node": "n00000", "kind": "xid", "code": code} for s, code in said])
    [step] = steps(engine(), batch(0, gpu_event=events))
    assert step.accepted["gpu_event"]["code"].to_list() == [79, 63]
    assert step.late["behind_seconds"].to_list() == [0.1]


@pytest.mark.parametrize("second", [100, 500, -50], ids=["before it", "to come", "under way"])
def test_a_window_that_starts_before_one_already_announced_is_not_late(second: int) -> None:
    def window(begins: float) -> pl.DataFrame:
        said = {"announced_at": at(0), "starts_at": at(begins), "ends_at": at(begins + 60), "kind": "cdu", "id": "c0"}
        return rows("maintenance", [said])

    first, other = window(300), window(second)
    made = steps(engine(), batch(1, maintenance=first), batch(2, maintenance=other), batch(3, maintenance=other))
    assert late(made).is_empty()
    assert [step.accepted["maintenance"].height for step in made] == [1, 1, 0]


def test_another_end_of_a_window_that_was_announced_is_no_repeat() -> None:
    def window(announced: float, ends: float) -> pl.DataFrame:
        said = {"announced_at": at(announced), "starts_at": at(9), "ends_at": at(ends), "kind": "cdu", "id": "c0"}
        return rows("maintenance", [said])

    told = (window(0, 60), window(1, 90), window(2, 9), window(2, 9))
    made = steps(engine(), *(batch(number, maintenance=one) for number, one in enumerate(told, 1)))
    assert [step.accepted["maintenance"].height for step in made] == [1, 1, 1, 0]


def test_lateness_is_judged_for_each_source_by_itself() -> None:
    made = steps(engine(), batch(0, gpu=gpu_rows(gpu_row(100), gpu_row(2, node="n00001"))))
    assert late(made).is_empty()


def test_a_clock_that_steps_back_sends_rows_to_late_with_how_far() -> None:
    hour = 3600
    made = steps(
        engine(), batch(0, gpu=gpu_rows(gpu_row(hour))), batch(0, gpu=gpu_rows(gpu_row(1), gpu_row(2))),
        batch(0, gpu=gpu_rows(gpu_row(hour + 1))),
    )  # fmt: skip
    assert late(made)["behind_seconds"].to_list() == [hour - 1, hour - 2]
    assert accepted(made)["time"].to_list() == [at(hour), at(hour + 1)]


def test_rows_at_or_after_the_watermark_wait_for_it() -> None:
    hot = gpu_rows(gpu_row(1, celsius=95), gpu_row(2, celsius=95))
    first, second, third = steps(engine(), batch(2, gpu=hot), batch(2), batch(3))
    assert first.findings["time"].to_list() == [at(1)]
    assert first.accepted["gpu"].height == 2
    assert second.findings.is_empty()
    assert third.findings["time"].to_list() == [at(2)]


def test_a_watermark_that_goes_back_is_held() -> None:
    first, second = steps(engine(), batch(5), batch(2, gpu=gpu_rows(gpu_row(4, celsius=95))))
    assert (first.state.now, second.state.now) == (at(5), at(5))


def test_released_rows_are_in_order_of_time_whatever_the_order_of_arrival() -> None:
    [step] = steps(engine(), batch(9, gpu=gpu_rows(gpu_row(5, celsius=95), gpu_row(4.5, gpu=1, celsius=96))))
    assert step.findings["time"].to_list() == [at(4.5), at(5)]


def test_a_repeat_is_dropped_before_and_after_the_watermark_has_passed() -> None:
    one = gpu_rows(gpu_row(1, celsius=95))
    waiting = steps(engine(), batch(1, gpu=one), batch(1, gpu=one), batch(5))
    passed = steps(engine(), batch(5, gpu=one), batch(5, gpu=one), batch(6))
    for made in (waiting, passed):
        assert accepted(made).height == 1
        assert sum(step.findings.height for step in made) == 1
        assert late(made).is_empty()


@pytest.mark.parametrize("cut", [True, False], ids=["in batches of their own", "in one batch"])
def test_rows_of_one_gpu_and_time_that_say_different_columns_are_parts_and_no_repeats(*, cut: bool) -> None:
    parts = [
        {"time": at(1), "node": "n00000", "gpu": 0, "temperature_celsius": 45.0},
        {"time": at(1), "node": "n00000", "gpu": 0, "power_watts": 650.0},
        {"time": at(1), "node": "n00000", "gpu": 0, "temperature_celsius": 46.0},
    ]
    batches = [batch(2, gpu=rows("gpu", [part])) for part in parts] if cut else [batch(2, gpu=rows("gpu", parts))]
    made = steps(engine(), *batches)
    assert accepted(made).select("temperature_celsius", "power_watts").rows() == [(45.0, None), (None, 650.0)]


def test_a_repeated_event_of_a_quiet_source_is_dropped_long_afterwards() -> None:
    event = rows("gpu_event", [{"time": at(1), "node": "n00000", "kind": "xid", "code": 79, "message": "fallen"}])
    made = steps(engine(), batch(2, gpu_event=event), batch(5000), batch(5001, gpu_event=event))
    assert [step.accepted.get("gpu_event", event.clear()).height for step in made] == [1, 0, 0]


def test_what_is_remembered_of_passed_rows_ends_when_their_source_goes_on() -> None:
    made = steps(engine(), *(batch(second + 1, gpu=gpu_rows(gpu_row(second))) for second in range(100)))
    assert made[-1].state.recent["gpu"].height <= 2


def test_health_counts_what_was_taken_what_was_late_and_what_was_refused() -> None:
    refused = pl.DataFrame(
        {
            "table": ["gpu", "gpu", None], "source": ["n00000", "n00000", None],
            "rule": ["a|max", "a|max", "message|json"],
        },
        schema_overrides=dict(QUARANTINE_COLUMNS),
    ).select(
        pl.col(name) if name in ("table", "source", "rule") else pl.lit(None, dtype).alias(name)
        for name, dtype in QUARANTINE_COLUMNS.items()
    )  # fmt: skip
    given_rows = gpu_rows(gpu_row(5), gpu_row(6), gpu_row(1), gpu_row(6))
    [step] = steps(engine(), batch(7, quarantined=refused, gpu=given_rows))
    told = step.health.select("table", "source", "rows", "late", "quarantined", "reason").rows()
    assert told == [("gpu", "n00000", 2, 1, 2, "a|max"), ("unknown", "unknown", 0, 0, 1, "message|json")]
    assert step.health["time"].to_list() == [at(7)] * 2


@settings(deadline=None, max_examples=60)
@given(arrivals=ARRIVALS, data=st.data())
def test_how_the_arrivals_are_cut_changes_nothing(arrivals: list[tuple[Any, ...]], data: st.DataObject) -> None:
    frame = gpu_rows(*(gpu_row(second, node, gpu, celsius) for second, node, gpu, celsius in arrivals))
    [whole] = steps(engine(), batch(10, gpu=frame))
    places = sorted(data.draw(st.lists(st.integers(0, frame.height), max_size=6)))
    parts = [frame[begin:end] for begin, end in zip([0, *places], [*places, frame.height], strict=True)]
    # A watermark is right when no later row is before it; any right one will do.
    batches = []
    for number, part in enumerate(parts):
        rest = pl.concat([gpu_rows(), *parts[number + 1 :]])["time"].min()
        latest = at(10) if rest is None else rest
        back = data.draw(st.integers(0, 20))
        batches.append(batch(0, gpu=part).__class__(tables={"gpu": part}, now=latest - timedelta(seconds=back / 10)))
    made = steps(engine(), *batches, batch(10))
    assert_frame_equal(accepted(made), accepted([whole]))
    assert_frame_equal(late(made), late([whole]))
    assert_frame_equal(pl.concat([step.findings for step in made]), whole.findings)
    assert_frame_equal(made[-1].state.detectors["test.hot"], whole.state.detectors["test.hot"])
