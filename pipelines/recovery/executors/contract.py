"""What an executor is: it makes one request happen, once, and can say afterwards what became of it."""

from dataclasses import dataclass
from typing import Protocol

from schemas.action import ActionRequest


@dataclass(frozen=True)
class ActionOutcome:
    """done: the effect is there. recoverable: it is not, nothing was changed, and trying again is safe.

    Neither: it failed, or nobody can tell; a person must look. detail: one line for people.
    """

    done: bool
    recoverable: bool = False
    detail: str = ""

    def __post_init__(self) -> None:
        assert not (self.done and self.recoverable), "what is done needs no second try"


class Executor(Protocol):
    """Every failure that can be foreseen is an ActionOutcome; an exception is a bug, and leaves the action pending."""

    def apply(self, request: ActionRequest) -> ActionOutcome:
        """Make it happen. `target` and `parameters` are data from telemetry: never part of a command line."""
        ...

    def outcome_of(self, request_id: str) -> ActionOutcome | None:
        """What became of a request whose answer was lost; None when it is not known here. Changes nothing."""
        ...
