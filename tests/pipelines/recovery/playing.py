"""Recovery played second by second, with everything enforced: what was carried out, and when."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import get_args

from pipelines.operations_store import OperationsStore
from pipelines.recovery.executors.contract import ActionOutcome
from pipelines.recovery.ledger import Ledger
from pipelines.recovery.recover import recover
from pipelines.recovery.settings import RecoverySettings
from schemas.action import ActionKind, ActionRecord, ActionRequest
from schemas.incident import Incident
from schemas.topology import Topology

ENFORCE = RecoverySettings(mode="enforce")
T0 = datetime(2026, 3, 1, 12, 0, 2, tzinfo=UTC)  # when the incidents of conftest are detected


@dataclass(frozen=True)
class At:
    seconds: float
    kind: str

    def holds(self, at: float) -> bool:
        return at == self.seconds


@dataclass(frozen=True)
class Between:
    begin: float
    end: float
    kind: str

    def holds(self, at: float) -> bool:
        return self.begin <= at <= self.end


@dataclass
class Clocked:
    """Carries out everything at the second that is being played, but what fails."""

    second: int = 0
    told: list[tuple[int, str]] = field(default_factory=list)
    failing: tuple[str, ...] = ()

    def apply(self, request: ActionRequest) -> ActionOutcome:
        self.told.append((self.second, request.kind))
        return ActionOutcome(done=request.kind not in self.failing)

    def outcome_of(self, request_id: str) -> None:
        return None


def play(
    one: Incident, topology: Topology, store: OperationsStore, until: int, *, over_at: int | None = None
) -> list[tuple[int, str]]:
    """Second by second from detection; from over_at on the incident is resolved."""
    plant = Clocked()
    for second in range(until + 1):
        over = over_at is not None and second >= over_at
        stands = (
            replace(one, state="resolved", ends_at=one.detected_at + timedelta(seconds=over_at or 0)) if over else one
        )
        at_second(second, stands, topology, store, plant)
    return plant.told


def at_second(second: int, one: Incident, topology: Topology, store: OperationsStore, plant: Clocked) -> None:
    plant.second, now = second, one.detected_at + timedelta(seconds=second)
    recover([one], topology, store, ENFORCE, dict.fromkeys(get_args(ActionKind), plant), now)


def of_kind(store: OperationsStore, kind: str) -> ActionRecord:
    (record,) = (one for one in Ledger(store).actions(limit=None) if one.request.kind == kind)
    return record


def approve(store: OperationsStore, kind: str) -> None:
    for person in ("ann", "bob"):
        Ledger(store).answer(of_kind(store, kind).request.id, person, "", T0, verdict="approved")


def expect(told: Sequence[tuple[int, str]], *wanted: At | Between) -> None:
    """Every action told is wanted, in this order, and at its time."""
    assert [kind for _, kind in told] == [one.kind for one in wanted]
    assert [(at, one) for (at, _), one in zip(told, wanted, strict=True) if not one.holds(at)] == []
