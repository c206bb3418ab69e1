"""One watermark over two lanes: neither is ever judged further than the other has been read."""

from datetime import UTC, datetime, timedelta

import pytest

from pipelines.intake import Intake, joined
from pipelines.serve.inbox import Inbox
from pipelines.serve.lane import LaneArrival, Mark

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
IDLE_SECONDS = 2.0


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def inbox(clock: Clock) -> Inbox:
    return Inbox(("events", "metrics"), 1_000, IDLE_SECONDS)


def say(inbox: Inbox, clock: Clock, lane: str, number: int, **mark: object) -> None:
    nothing = Intake({}, joined([]).quarantined, {})
    seconds = mark.pop("seconds", None)
    now = None if seconds is None else NOON + timedelta(seconds=float(str(seconds)))
    inbox.put(
        LaneArrival(
            lane=lane, number=number, intake=nothing, offsets={(lane, 0): number}, until=None, polled=clock(),
            mark=Mark(now=now, asked=clock(), **mark),  # type: ignore[arg-type]  flags by name
        )
    )  # fmt: skip


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def test_the_slower_lane_sets_the_watermark(inbox: Inbox, clock: Clock) -> None:
    say(inbox, clock, "events", 1, seconds=50)
    say(inbox, clock, "metrics", 1, seconds=20)
    assert inbox.take(1000).now == at(20)


def test_nothing_is_judged_before_both_lanes_have_spoken(inbox: Inbox, clock: Clock) -> None:
    say(inbox, clock, "events", 1, seconds=50)
    assert not inbox.can_begin()
    assert inbox.take(1000).now is None
    say(inbox, clock, "metrics", 1)
    assert not inbox.can_begin()


def test_a_lane_without_topics_holds_nobody_back(inbox: Inbox, clock: Clock) -> None:
    say(inbox, clock, "events", 1, seconds=50)
    say(inbox, clock, "metrics", 1, quiet=True)
    assert inbox.can_begin()
    assert inbox.take(1000).now == at(50)


def test_a_quiet_lane_holds_the_other_back_until_it_has_been_idle(inbox: Inbox, clock: Clock) -> None:
    say(inbox, clock, "metrics", 1, seconds=20, quiet=True)
    say(inbox, clock, "events", 1, seconds=50)
    assert inbox.take(1000).now == at(20)
    clock.now += IDLE_SECONDS
    assert inbox.now() == at(20)  # nobody has asked the brokers since
    say(inbox, clock, "metrics", 2, seconds=20, quiet=True)
    assert inbox.take(1000).now == at(50)


def test_after_a_pause_of_both_each_is_waited_for_anew(inbox: Inbox, clock: Clock) -> None:
    say(inbox, clock, "events", 1, seconds=20, quiet=True)
    say(inbox, clock, "metrics", 1, seconds=20, quiet=True)
    clock.now += 60
    say(inbox, clock, "metrics", 2, seconds=20, quiet=True)
    say(inbox, clock, "events", 2, seconds=40)  # the metrics of the same moment are under way
    assert inbox.take(1000).now == at(20)
    say(inbox, clock, "metrics", 3, seconds=39)
    assert inbox.take(1000).now == at(39)


def test_silence_goes_on_with_the_clock_where_rows_were_of_now(inbox: Inbox, clock: Clock) -> None:
    for lane in ("events", "metrics"):
        say(inbox, clock, lane, 1, seconds=50, quiet=True, live=True)
    inbox.take(1000)
    clock.now += IDLE_SECONDS + 10
    for lane in ("events", "metrics"):
        say(inbox, clock, lane, 2, seconds=50, quiet=True, live=True)
    assert inbox.take(1000).now == at(60)


def test_a_recording_that_was_sent_has_ended_and_is_not_silent(inbox: Inbox, clock: Clock) -> None:
    for lane, seconds in (("events", 50), ("metrics", 40)):
        say(inbox, clock, lane, 1, seconds=seconds, quiet=True)
    inbox.take(1000)
    clock.now += 3600
    for lane, seconds in (("events", 50), ("metrics", 40)):
        say(inbox, clock, lane, 2, seconds=seconds, quiet=True)
    assert inbox.take(1000).now == at(50)


def test_the_watermark_is_that_of_what_was_taken_and_not_of_what_waits(inbox: Inbox, clock: Clock) -> None:
    say(inbox, clock, "events", 1, seconds=50)
    say(inbox, clock, "metrics", 1, seconds=20)
    say(inbox, clock, "metrics", 2, seconds=45)
    first = inbox.take(0)  # one arrival at least
    assert (first.now, first.offsets) == (None, {("events", 0): 1})
    assert inbox.take(0).now == at(20)
    third = inbox.take(0)
    assert (third.now, third.numbers) == (at(45), {"events": 1, "metrics": 2})
