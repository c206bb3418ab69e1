"""When it may be said that everything older has come: over partitions, and from the rows alone."""

from collections.abc import Mapping
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from kafka import TopicPartition

from pipelines.sources.kafka import not_ahead
from pipelines.sources.watermark import Watermark
from tests.pipelines.telemetry_rows import at

SECOND = timedelta(seconds=1)
A, B, C = ("gpu", 0), ("gpu", 1), ("power", 0)


def mark(newest: Mapping[tuple[str, int], float], *behind: tuple[str, int]) -> Watermark:
    return Watermark(SECOND).seen({one: at(second) for one, second in newest.items()}, frozenset(behind))


def test_the_slowest_partition_that_has_more_to_give_decides() -> None:
    assert mark({A: 100, B: 40, C: 70}, A, B, C).now() == at(39)


def test_a_partition_read_to_its_end_holds_nobody_back() -> None:
    assert mark({A: 100, B: 40}, A).now() == at(99)


def test_when_all_are_read_the_newest_decides() -> None:
    assert mark({A: 100, B: 40}).now() == at(99)


def test_nothing_is_said_before_every_partition_with_messages_has_shown_one() -> None:
    assert mark({A: 100}, A, B).now() is None


def test_an_empty_topic_is_not_waited_for() -> None:
    assert mark({}).now() is None
    assert mark({A: 100}, A).now() == at(99)


def test_a_partition_of_nothing_but_malformed_messages_is_waited_for_until_it_is_read() -> None:
    reading = mark({A: 100}, A, B)
    assert reading.now() is None
    assert reading.seen({}, frozenset({A})).now() == at(99)


def test_partitions_that_ran_ahead_are_named_and_the_slowest_never_is() -> None:
    assert mark({A: 100, B: 40, C: 41}, A, B, C).ahead(timedelta(seconds=30)) == {A}
    assert mark({A: 100, B: 71, C: 100}, A, B).ahead(timedelta(seconds=30)) == frozenset()


def test_until_all_have_shown_themselves_only_those_that_have_not_are_read() -> None:
    assert mark({A: 100}, A, B).ahead(timedelta(seconds=30)) == {A}


def test_an_older_message_does_not_take_a_partition_back() -> None:
    assert mark({A: 100}, A).seen({A: at(50)}, frozenset({A})).now() == at(99)


def test_a_clock_that_runs_ahead_moves_the_watermark_no_further_than_its_message_was_written() -> None:
    def polled(partition: int, *seconds: float) -> dict[TopicPartition, list[Any]]:
        written = [SimpleNamespace(timestamp=at(second).timestamp() * 1000) for second in seconds]
        return {TopicPartition("gpu", partition): written}

    hour = 3600
    newest = not_ahead({A: at(100 + hour), B: at(99)}, polled(0, 99, 100.2) | polled(1, 99.5))
    assert newest == {A: at(100.2), B: at(99)}
    assert Watermark(SECOND).seen(newest, frozenset()).now() == at(99.2)
    assert not_ahead({A: at(50)}, {TopicPartition("gpu", 0): [SimpleNamespace(timestamp=-1)]}) == {A: at(50)}


PARTITIONS = st.lists(st.lists(st.integers(0, 600), min_size=0, max_size=12), min_size=1, max_size=4)


@settings(max_examples=200, deadline=None)
@given(tenths=PARTITIONS, jitter=st.data())
def test_it_never_passes_what_a_partition_still_has_to_give(tenths: list[list[int]], jitter: st.DataObject) -> None:
    """Rows of a partition are in order but for the allowed second; partitions are read in any order and any portions,
    and those that it names as ahead are not read.
    """
    queues = {
        ("gpu", number): [at(tenth / 10 + jitter.draw(st.integers(0, 9)) / 10) for tenth in sorted(given_tenths)]
        for number, given_tenths in enumerate(tenths)
    }
    mark = Watermark(SECOND)
    mark = mark.seen({}, frozenset(one for one, queue in queues.items() if queue))
    polls = 0
    while any(queues.values()):
        readable = sorted(one for one in mark.behind if one not in mark.ahead(timedelta(seconds=5)))
        assert readable, "every partition is paused: reading would never end"
        chosen = jitter.draw(st.sampled_from(readable))
        count = jitter.draw(st.integers(1, 4))
        taken, queues[chosen] = queues[chosen][:count], queues[chosen][count:]
        mark = mark.seen({chosen: max(taken)}, frozenset(one for one, queue in queues.items() if queue))
        now = mark.now()
        left = [moment for queue in queues.values() for moment in queue]
        if now is not None and left:
            assert now <= min(left)
        polls += 1
    assert polls <= sum(len(given_tenths) for given_tenths in tenths)
