"""What Slurm may answer when it does not answer well: never a guess, never a second effect, never a shell."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from pipelines.recovery.executors.slurm import Answer, SlurmExecutor, run
from schemas.action import ActionRequest

IDLE = "NodeName=n1 Arch=x86_64 State=IDLE ThreadsPerCore=1 Partitions=all\n"
DRAINING = (
    "NodeName=n1 Arch=x86_64 State=MIXED+DRAIN ThreadsPerCore=1 Reason=hotspare:act-1 [root@2026-11-30T07:43:47]\n"
)


def ask(kind: Any = "drain_node", target: str = "n1", **parameters: Any) -> ActionRequest:
    return ActionRequest(
        id="act-1", incident="inc-1", kind=kind, target=target, parameters=parameters,
        requested_at=datetime(2026, 3, 1, tzinfo=UTC), reason="because",
    )  # fmt: skip


class Script:
    """Answers in turn; remembers what was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.answers, self.asked = list(answers), list[list[str]]()

    def __call__(self, arguments: Sequence[str], timeout_seconds: float) -> Answer:
        self.asked.append(list(arguments))
        return self.answers.pop(0)


def ok(text: str = "") -> Answer:
    return Answer(0, text, "")


LOST = Answer(None, "", "no answer within 10 s")


@pytest.mark.parametrize(
    ("answers", "done", "recoverable"),
    [
        ([ok(IDLE), ok(), ok(DRAINING)], True, False),
        ([LOST], False, True),  # the lookup failed: nothing was changed
        ([Answer(1, "Node n1 not found", "")], False, True),
        ([ok("<html>proxy error</html>")], False, True),
        ([ok(IDLE), LOST], False, False),  # the update may have been taken: a person must look
        ([ok(IDLE), Answer(1, "", "Access denied")], False, False),
        ([ok(IDLE), ok(), LOST], False, False),
        ([ok(IDLE), ok(), ok(IDLE)], False, False),  # taken, and without effect
    ],
)
def test_only_a_node_that_is_seen_drained_is_drained(answers: list[Answer], *, done: bool, recoverable: bool) -> None:
    outcome = SlurmExecutor(command=Script(*answers)).apply(ask())
    assert (outcome.done, outcome.recoverable) == (done, recoverable)
    assert outcome.detail


def test_a_node_on_which_jobs_still_run_is_not_rebooted() -> None:
    script = Script(ok(DRAINING))
    outcome = SlurmExecutor(command=script).apply(ask("reboot_node"))
    assert (outcome.done, outcome.recoverable) == (False, True)
    assert [asked[1] for asked in script.asked] == ["--oneliner"]


@pytest.mark.parametrize(
    "target", ["n1; reboot", "$(reboot)", "-h", "n1\nstate=down", "", "n" * 80, "n[1-3072]", "ALL,n1", "../n1"]
)
def test_a_hostile_name_reaches_no_command(target: str) -> None:
    script = Script()
    outcome = SlurmExecutor(command=script).apply(ask(target=target))
    assert (outcome.done, outcome.recoverable) == (False, False)
    assert script.asked == []


def test_a_command_that_hangs_or_is_missing_is_an_answer_and_not_a_crash() -> None:
    assert run(["sleep", "30"], 0.05).code is None
    assert "No such file" in run(["/nowhere/scontrol"], 1).error
