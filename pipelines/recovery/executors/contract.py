"""What an executor is: it makes one request happen, once, and can say afterwards what became of it."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from schemas.action import ActionRequest

ONLY_LOGGED = "only logged"  # how the detail of an action begins that was written down for others, and had no effect


@dataclass(frozen=True)
class ActionOutcome:
    """done: the effect is there. recoverable: it is not, nothing was changed, and trying again is safe. under_way: it
    is begun and takes its time; only a Lasting executor says so, and is asked again on later turns.

    None of them: it failed, or nobody can tell; a person must look. detail: one line for people.
    """

    done: bool
    recoverable: bool = False
    detail: str = ""
    under_way: bool = False

    def __post_init__(self) -> None:
        assert self.done + self.recoverable + self.under_way <= 1, "what is done or under way needs no second try"


class Executor(Protocol):
    """Every failure that can be foreseen is an ActionOutcome; an exception is a bug, and leaves the action pending."""

    def apply(self, request: ActionRequest) -> ActionOutcome:
        """Make it happen. `target` and `parameters` are data from telemetry: never part of a command line."""
        ...

    def outcome_of(self, request_id: str) -> ActionOutcome | None:
        """What became of a request whose answer was lost; None when it is not known here. Changes nothing."""
        ...


@runtime_checkable
class Lasting(Executor, Protocol):
    """An executor whose effects may take longer than a turn of the loop may wait."""

    def carry_on(self, request: ActionRequest, seconds: float) -> ActionOutcome:
        """How far a request is that was under way, and the next push that it needs. seconds: since it was begun. Asked
        by two workers at once, or twice, it does no more than once.
        """
        ...
