from dataclasses import replace
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from detectors.contract import FINDING_COLUMNS
from pipelines.counterfactual import differences
from pipelines.rejudge import Rejudged
from schemas.action import ActionRecord, ActionRequest
from schemas.incident import Incident

T0 = datetime(2026, 3, 2, 9, tzinfo=UTC)
DEAD = Incident(
    id="inc-1", cause="gpu_fallen_off_bus", severity="page", state="firing", root_kind="gpu", roots=("n1/3",),
    members=("n1/3",), symptoms=(), starts_at=T0, detected_at=T0 + timedelta(seconds=5), ends_at=None, evidence=(),
)  # fmt: skip


def side(*incidents: Incident, findings: tuple[dict, ...] = (), actions: tuple[ActionRecord, ...] = ()) -> Rejudged:
    frame = pl.DataFrame(list(findings), schema=FINDING_COLUMNS)
    return Rejudged(findings=frame, incidents={one.id: one for one in incidents}, actions=actions, until=T0)


def said(seconds: float, entity: str = "n1/3") -> dict:
    return {"time": T0 + timedelta(seconds=seconds), "detector": "gpu.absent", "cause": "gpu_fallen_off_bus",
            "kind": "gpu", "entity": entity, "active": True, "code": "absent", "severity": "page"}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "change"),
    [
        ({"detected_at": T0 + timedelta(seconds=2)}, "earlier"), ({"detected_at": T0 + timedelta(seconds=9)}, "later"),
        ({"severity": "ticket"}, "severity"), ({"cause": "gpu_hang"}, "cause"), ({"roots": ("n1/3", "n1/4")}, "root"),
        ({"members": ("n1/3", "n1/5")}, "members"),
    ],
)  # fmt: skip
def test_a_change_of_the_same_incident_is_named(changed: dict, change: str) -> None:
    other = replace(DEAD, id="inc-2", **changed)
    assert [one.change for one in differences(side(DEAD), side(other))] == [change]


def test_what_only_one_side_has_appears_or_vanishes() -> None:
    assert [one.change for one in differences(side(DEAD), side())] == ["vanishes"]
    assert [one.change for one in differences(side(), side(DEAD))] == ["appears"]


def test_the_same_on_both_sides_is_no_difference_whatever_its_id() -> None:
    assert differences(side(DEAD), side(replace(DEAD, id="inc-9"))) == ()


def test_a_suspect_that_came_to_nothing_is_no_incident() -> None:
    assert differences(side(replace(DEAD, state="suspect")), side()) == ()


def test_the_finding_behind_a_difference_is_the_first_that_only_one_side_made() -> None:
    before = side(DEAD, findings=(said(5), said(7)))
    later = side(replace(DEAD, detected_at=T0 + timedelta(seconds=7)), findings=(said(7),))
    (found,) = differences(before, later)
    assert (
        found.finding
        == "gpu.absent: gpu_fallen_off_bus (absent, page) of n1/3 begins at 2026-03-02 09:00:05, before only"
    )


def test_an_action_that_only_one_side_asks_for_is_named() -> None:
    request = ActionRequest(id="a", incident="inc-1", kind="drain_node", target="n1", parameters={}, requested_at=T0,
                            reason="")  # fmt: skip
    record = ActionRecord(request=request, mode="dry-run", outcome="dry-run", why="", at=T0)
    (found,) = differences(side(DEAD), side(DEAD, actions=(record,)))
    assert (found.change, found.before, found.after) == ("actions", "nothing more", "drain_node n1")
