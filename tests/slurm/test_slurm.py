"""Draining and resuming a node of a real Slurm."""

import subprocess
from datetime import UTC, datetime
from typing import Any

import pytest

from pipelines.recovery.executors.slurm import SlurmExecutor
from schemas.action import ActionRequest

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
NODE = "n00001"


def ask(kind: Any, identity: str, **parameters: Any) -> ActionRequest:
    return ActionRequest(
        id=identity, incident="inc-1", kind=kind, target=NODE, parameters=parameters, requested_at=T0, reason="because"
    )


def shown(scontrol: str) -> str:
    return subprocess.run(
        [scontrol, "--oneliner", "show", "node", NODE], capture_output=True, check=True
    ).stdout.decode()


@pytest.fixture
def in_service(scontrol: str) -> str:
    if "DRAIN" in shown(scontrol):
        subprocess.run([scontrol, "update", f"nodename={NODE}", "state=resume"], check=True)
    return scontrol


def test_a_node_is_drained_under_our_reason_and_resumed_by_the_return_that_undoes_it(in_service: str) -> None:
    executor = SlurmExecutor(scontrol=in_service)
    drained = executor.apply(ask("drain_node", "act-0001"))
    assert drained.done, drained.detail
    assert "DRAIN" in shown(in_service)
    assert "Reason=hotspare:act-0001" in shown(in_service)
    resumed = executor.apply(ask("return_to_service", "act-0002", undoes="act-0001"))
    assert resumed.done, resumed.detail
    assert "DRAIN" not in shown(in_service)


def test_an_answer_that_was_lost_is_found_in_the_reason(in_service: str) -> None:
    executor = SlurmExecutor(scontrol=in_service)
    executor.apply(ask("drain_node", "act-0003"))
    found = executor.outcome_of("act-0003")
    assert found is not None
    assert found.done
    assert executor.outcome_of("act-9999") is None


def test_a_drain_by_a_person_keeps_its_reason_and_is_not_undone(in_service: str) -> None:
    subprocess.run([in_service, "update", f"nodename={NODE}", "state=drain", "reason=ann: hands inside"], check=True)
    executor = SlurmExecutor(scontrol=in_service)
    assert executor.apply(ask("drain_node", "act-0004")).done
    assert "Reason=ann: hands inside" in shown(in_service)
    refused = executor.apply(ask("return_to_service", "act-0005", undoes="act-0004"))
    assert not refused.done
    assert "somebody else" in refused.detail
    assert "DRAIN" in shown(in_service)


def test_a_node_that_slurm_does_not_know_is_not_taken_for_drained(in_service: str) -> None:
    request = ask("drain_node", "act-0006")
    unknown = ActionRequest(**{**vars(request), "target": "n99999"})
    outcome = SlurmExecutor(scontrol=in_service).apply(unknown)
    assert (outcome.done, outcome.recoverable) == (False, True)
    assert "n99999" in outcome.detail
