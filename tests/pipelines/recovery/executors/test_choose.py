"""Settings that name who does what: ports go to who knows ports, nobody may be slower than a lost intent is young."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pipelines.recovery.executors.choose import executors_from
from pipelines.recovery.executors.contract import ActionOutcome
from pipelines.recovery.executors.ports import ReturnExecutor
from pipelines.recovery.executors.settings import ExecutorSettings
from pipelines.settings import Settings, SettingsError
from schemas.action import ActionRequest


def returning(target_kind: str, target: str) -> ActionRequest:
    return ActionRequest(
        id="act-1", incident="inc-1", kind="return_to_service", target=target, parameters={"target_kind": target_kind},
        requested_at=datetime(2026, 3, 1, tzinfo=UTC), reason="because",
    )  # fmt: skip


class Named:
    def __init__(self, name: str, lost: ActionOutcome | None) -> None:
        self.name, self.lost = name, lost

    def apply(self, request: ActionRequest) -> ActionOutcome:
        return ActionOutcome(done=True, detail=f"{self.name}: {request.target}")

    def outcome_of(self, request_id: str) -> ActionOutcome | None:
        return self.lost


def test_a_port_returns_by_who_isolated_it_and_a_node_by_who_drained_it() -> None:
    both = ReturnExecutor(nodes=Named("slurm", None), ports=Named("log", None))
    assert both.apply(returning("port", "leaf-0:1")).detail == "log: leaf-0:1"
    assert both.apply(returning("node", "n00001")).detail == "slurm: n00001"
    assert both.outcome_of("act-1") is None


def test_a_port_whose_answer_was_lost_is_not_judged_by_who_never_heard_of_it() -> None:
    never, done = ActionOutcome(done=False, detail="no node carries act-1"), ActionOutcome(done=True)
    assert ReturnExecutor(nodes=Named("kubernetes", never), ports=Named("log", done)).outcome_of("act-1") == done


def test_ports_never_go_to_a_scheduler_of_nodes() -> None:
    chosen = executors_from(made(by_kind={"return_to_service": "slurm", "drain_node": "slurm"}))
    returner = chosen["return_to_service"]
    assert isinstance(returner, ReturnExecutor)
    assert (returner.nodes, returner.ports) == (chosen["drain_node"], chosen["isolate_port"])


@pytest.mark.parametrize(
    ("who", "kind", "slow"),
    [
        ("slurm", "drain_node", {"slurm": {"timeout_seconds": 20}}),  # show, update, show
        ("webhook", "rma", {"webhook": {"url": "http://127.0.0.1:9/", "timeout_seconds": 20}}),  # three tries
        ("redfish", "cap_power", {"redfish": {"deadline_seconds": 50, "timeout_seconds": 10}}),
    ],
)
def test_an_executor_slower_than_a_lost_intent_is_young_is_refused(who: str, kind: str, slow: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=rf"executors\.{who}: an action may take 6\S* s .*unanswered_seconds"):
        executors_from(made(by_kind={kind: who}, **slow))
    quick = {name: {**values, "timeout_seconds": 1} for name, values in slow.items()}
    assert kind in executors_from(made(by_kind={kind: who}, **quick))


def test_a_slow_broker_is_refused_too() -> None:
    slow = Settings(executors=ExecutorSettings(by_kind={"rma": "kafka"}), kafka={"timeout_seconds": 15})
    with pytest.raises(SettingsError, match=r"executors\.kafka: an action may take 60 s"):
        executors_from(slow)


def test_a_secret_that_is_no_text_is_one_clear_line(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError) as refused:
        executors_from(made(by_kind={"rma": "webhook"}, webhook={"url": "http://127.0.0.1:9/", "secret_file": file}))
    assert str(refused.value) == f"{file}: not text in UTF-8: a secret is one line of it"


def made(**executors: Any) -> Settings:
    return Settings(executors=ExecutorSettings(**executors))
