"""Arithmetic of the daily report."""

from datetime import UTC, datetime, timedelta

import pytest

from pipelines.reliability import lost_hours
from schemas.incident import Incident

DAY = datetime(2026, 3, 2, tzinfo=UTC)
NEXT = DAY + timedelta(days=1)


def incident(members, begin, end, cause="node_lost"):
    """begin, end: hours of the day; end None while it lasts."""
    starts = DAY + timedelta(hours=begin)
    return Incident(
        id=f"inc-{cause}-{begin}", cause=cause, severity="page", state="firing" if end is None else "resolved",
        root_kind="node", roots=("n00001",), members=tuple(members), symptoms=(), starts_at=starts, detected_at=starts,
        ends_at=None if end is None else DAY + timedelta(hours=end), evidence=(),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("incidents", "hours"),
    [
        ([], 0.0),
        ([incident(["n00001/0", "n00001/1"], 1, 3)], 4.0),
        ([incident(["n00001/0"], 22, None)], 2.0),  # until the day ends
        ([incident(["n00001/0"], -5, 1)], 1.0),  # from when the day begins
        ([incident(["n00001/0"], 1, 3), incident(["n00001/0"], 2, 5, "gpu_hang")], 4.0),  # lost once, not twice
        ([incident(["n00001/0"], 1, 9), incident(["n00001/0"], 2, 5, "gpu_hang")], 8.0),  # one within the other
        ([incident(["n00001/0"], 1, 2), incident(["n00001/1"], 1, 2, "gpu_hang")], 2.0),
        ([incident([], 1, 9, "link_flap")], 0.0),  # a link has no GPUs of its own
        ([incident(["n00001/0"], -9, -5)], 0.0),  # over before the day
    ],
)
def test_gpu_hours_are_lost_while_at_least_one_incident_holds_the_gpu(incidents, hours):
    assert lost_hours(incidents, DAY, NEXT) == pytest.approx(hours)
