"""Slurm: nodes are drained and resumed with scontrol, under our own reason, and only what is ours is undone.

DRAIN is a wish, not a state: jobs of the node still run until it says drained, so steps that need an empty node wait
for that. A node that a person has drained keeps the person's reason, and is never resumed by us. No shell: scontrol
gets a list of arguments, and a name that is not a plain host name goes nowhere.
"""

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pipelines.recovery.executors.contract import ActionOutcome
from pipelines.recovery.executors.names import plain
from schemas.action import ActionRequest
from schemas.topology import node_of

OWNER = "hotspare"
KINDS = ("drain_node", "return_to_service", "reboot_node")
OUT = frozenset({"DRAIN", "DRAINED", "DRAINING", "FAIL"})


@dataclass(frozen=True)
class Answer:
    """What a command gave. code: None when it did not end in time, or could not be started."""

    code: int | None
    out: str
    error: str


class Command(Protocol):
    def __call__(self, arguments: Sequence[str], timeout_seconds: float) -> Answer: ...


def run(arguments: Sequence[str], timeout_seconds: float) -> Answer:
    try:
        ended = subprocess.run(  # noqa: S603 - a list of arguments without a shell, names checked before
            list(arguments), capture_output=True, timeout=timeout_seconds, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return Answer(None, "", f"no answer within {timeout_seconds:g} s")
    except OSError as error:
        return Answer(None, "", f"{arguments[0]}: {error.strerror}")
    return Answer(
        ended.returncode, ended.stdout.decode(errors="replace"), ended.stderr.decode(errors="replace").strip()
    )


@dataclass(frozen=True)
class _Node:
    name: str
    states: frozenset[str]
    reason: str


# One node a line, as every scontrol since 2.x writes it; the JSON form needs a plugin that is often not there.
NODE = re.compile(r"^NodeName=(\S+) .*?\bState=(\S+)")
REASON = re.compile(r" Reason=(.*?)(?: \[[^\]]*\])?\s*$")


@dataclass(frozen=True)
class SlurmExecutor:
    """scontrol: path of the command. command: how commands are run. timeout_seconds: for each of them."""

    scontrol: str = "scontrol"
    timeout_seconds: float = 10.0
    command: Command = run

    def apply(self, request: ActionRequest) -> ActionOutcome:
        node = plain(node_of(request.target))
        if node is None:
            return ActionOutcome(done=False, detail=f"{request.target!r} is no name of a Slurm node")
        found = self._node(node)
        if isinstance(found, str):  # a lookup that failed says nothing about the node: nothing was changed
            return ActionOutcome(done=False, recoverable=True, detail=found)
        match request.kind:
            case "drain_node":
                return self._drain(node, found, request.id)
            case "return_to_service":
                return self._resume(node, found, str(request.parameters.get("undoes", "")))
            case "reboot_node":
                return self._reboot(node, found, request.id)
        return ActionOutcome(done=False, detail=f"Slurm cannot do {request.kind}")

    def outcome_of(self, request_id: str) -> ActionOutcome | None:
        """Which node carries this action in its reason; a resume leaves no trace."""
        nodes = self._nodes()
        if isinstance(nodes, str):
            return None
        named = next((node for node in nodes if _tag(request_id) == node.reason), None)
        return None if named is None else ActionOutcome(done=True, detail=f"{named.name} says {named.reason!r}")

    def _drain(self, node: str, found: _Node, action: str) -> ActionOutcome:
        if found.states & OUT and not found.reason.startswith(f"{OWNER}:"):
            return ActionOutcome(done=True, detail=f"{node} was drained before by somebody else: {found.reason!r}")
        return self._update(node, f"reason={_tag(action)}", "state=drain", expect=lambda states: bool(states & OUT))

    def _resume(self, node: str, found: _Node, drained_by: str) -> ActionOutcome:
        if not found.states & (OUT | {"DOWN"}):
            return ActionOutcome(done=True, detail=f"{node} is in service already")
        if _tag(drained_by) != found.reason:
            return ActionOutcome(done=False, detail=f"{node} was drained by somebody else: {found.reason!r}")
        return self._update(node, "state=resume", expect=lambda states: not states & (OUT | {"DOWN"}))

    def _reboot(self, node: str, found: _Node, action: str) -> ActionOutcome:
        """Only once nothing runs there any more: DRAIN is a flag, drained is a fact."""
        states = found.states
        if not ({"DRAIN", "IDLE"} <= states or "DRAINED" in states or {"DRAIN", "DOWN"} <= states):
            return ActionOutcome(
                done=False, recoverable=True, detail=f"{node} is not drained yet: {'+'.join(sorted(states))}"
            )
        answer = self.command(
            [self.scontrol, "reboot", "asap", "nextstate=down", f"reason={_tag(action)}", node], self.timeout_seconds
        )
        return _outcome(answer, f"reboot of {node}")

    def _update(self, node: str, *settings: str, expect: "_Expected") -> ActionOutcome:
        answer = self.command([self.scontrol, "update", f"nodename={node}", *settings], self.timeout_seconds)
        if answer.code != 0:
            return _outcome(answer, f"update of {node}")
        after = self._node(node)
        if isinstance(after, str):
            return ActionOutcome(done=False, detail=f"update of {node} was taken, and then {after}")
        if not expect(after.states):
            return ActionOutcome(done=False, detail=f"{node} is {'+'.join(sorted(after.states))} after {settings[-1]}")
        return ActionOutcome(done=True, detail=f"{node} is {'+'.join(sorted(after.states))}")

    def _node(self, node: str) -> "_Node | str":
        """The node as Slurm sees it, or why it cannot be told: never a guess."""
        nodes = self._nodes(node)
        if isinstance(nodes, str):
            return nodes
        return next((one for one in nodes if one.name == node), f"Slurm knows no node {node}")

    def _nodes(self, *node: str) -> "tuple[_Node, ...] | str":
        answer = self.command([self.scontrol, "--oneliner", "show", "node", *node], self.timeout_seconds)
        if answer.code != 0:
            return f"scontrol: {answer.error or answer.out.strip()}"
        found = tuple(node for node in map(_node, answer.out.splitlines()) if node is not None)
        return found or "scontrol: an answer that cannot be read"


def _node(line: str) -> _Node | None:
    found, why = NODE.search(line), REASON.search(line)
    if found is None:
        return None
    states = frozenset(state.rstrip("*~#!%$@^-").upper() for state in found[2].split("+"))
    return _Node(found[1], states, why[1] if why else "")


class _Expected(Protocol):
    def __call__(self, states: frozenset[str], /) -> bool: ...


def _tag(action: str) -> str:
    return f"{OWNER}:{action}"


def _outcome(answer: Answer, what: str) -> ActionOutcome:
    if answer.code == 0:
        return ActionOutcome(done=True, detail=f"{what} was taken")
    if answer.code is None:  # it may have been taken all the same
        return ActionOutcome(done=False, detail=f"{what}: {answer.error}")
    return ActionOutcome(done=False, detail=f"{what}: {answer.error or answer.out.strip()}"[:300])
