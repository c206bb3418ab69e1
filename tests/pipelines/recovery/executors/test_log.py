import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipelines.recovery.executors.log import LogExecutor
from schemas.action import ActionRequest

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOSTILE = 'n1\n{"id": "act-2"}\r\n\u2028$(reboot)'


def request(identity: str = "act-1", target: str = "n00001") -> ActionRequest:
    values: Any = {"id": identity, "incident": "inc-1", "kind": "drain_node", "target": target, "reason": "r"}
    return ActionRequest(**values, parameters={"target_kind": "node"}, requested_at=T0)


def test_a_request_is_one_line_whatever_its_target_is_called(tmp_path: Path) -> None:
    executor = LogExecutor(tmp_path / "var" / "actions.jsonl")
    assert executor.apply(request(target=HOSTILE)).done
    lines = executor.path.read_bytes().split(b"\n")
    assert len(lines) == 2
    assert lines[1] == b""
    assert json.loads(lines[0])["target"] == HOSTILE
    assert executor.outcome_of("act-2") is None


def test_it_knows_what_it_wrote_and_nothing_else(tmp_path: Path) -> None:
    executor = LogExecutor(tmp_path / "actions.jsonl")
    assert executor.outcome_of("act-1") is None
    executor.apply(request())
    written = executor.outcome_of("act-1")
    assert written is not None
    assert written.done
    assert executor.outcome_of("act-2") is None


def test_it_says_that_nothing_was_done_and_how_to_name_who_does_it(tmp_path: Path) -> None:
    executor = LogExecutor(tmp_path / "actions.jsonl")
    said = executor.apply(request()).detail
    assert said.startswith("only logged")
    assert 'executors.by_kind.drain_node = "' in said
    again = executor.outcome_of("act-1")
    assert again is not None
    assert again.detail.startswith("only logged")


def test_half_a_line_of_a_killed_process_is_not_done_and_spoils_nothing_after_it(tmp_path: Path) -> None:
    executor = LogExecutor(tmp_path / "actions.jsonl")
    executor.path.write_bytes(b'{"id":"act-0","incident":"in')
    executor.apply(request())
    assert executor.outcome_of("act-0") is None
    assert executor.outcome_of("act-1") is not None


def test_a_file_that_cannot_be_written_is_a_failure_with_its_name(tmp_path: Path) -> None:
    outcome = LogExecutor(tmp_path).apply(request())  # a folder
    assert not outcome.done
    assert str(tmp_path) in outcome.detail
