from datetime import UTC, datetime, timedelta

import pytest

from replay.clock import Pace, parse_speed

EVENT = datetime(2026, 1, 1, tzinfo=UTC)
WALL = datetime(2026, 6, 1, tzinfo=UTC)


def test_at_ten_times_speed_a_minute_of_events_takes_six_seconds():
    pace = Pace(EVENT, WALL, 10.0)
    assert pace.seconds_to_wait(EVENT + timedelta(minutes=1), WALL) == pytest.approx(6.0)


def test_what_is_overdue_is_not_waited_for():
    assert Pace(EVENT, WALL, 1.0).seconds_to_wait(EVENT, WALL + timedelta(seconds=5)) == 0.0


def test_at_full_speed_nothing_is_waited_for():
    assert Pace(EVENT, WALL, None).seconds_to_wait(EVENT + timedelta(days=1), WALL) == 0.0


@pytest.mark.parametrize(("text", "speed"), [("max", None), ("1", 1.0), ("10x", 10.0), ("0.5", 0.5)])
def test_speeds_people_write(text, speed):
    assert parse_speed(text) == speed


@pytest.mark.parametrize("text", ["fast", "0", "-1", "inf", "nan", ""])
def test_a_speed_that_is_none_is_one_clear_line(text):
    with pytest.raises(ValueError, match="speed"):
        parse_speed(text)
