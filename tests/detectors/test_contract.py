from datetime import UTC, datetime

import pytest

from detectors.contract import Context
from schemas.tables import TABLE_BY_NAME
from tests.detectors.timelines import cluster

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("table", "seconds"), [("gpu", 2.0), ("fabric_port", 30.0), ("optic", 60.0), ("gpu_event", 0.0)]
)
def test_an_interval_that_the_source_does_not_name_is_the_usual_one_of_the_table(table, seconds):
    context = Context(now=NOON, began=NOON, topology=cluster(), intervals_seconds={"gpu": 2.0})
    assert context.interval_seconds_of(TABLE_BY_NAME[table]) == seconds
