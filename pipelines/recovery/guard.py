"""The guard: may this request be carried out now? Pure, and fail closed: what is not known is a reason to refuse."""

from dataclasses import dataclass

from pipelines.recovery.checks import CHECKS, Refusal
from pipelines.recovery.facts import Approval, Facts, certain
from pipelines.recovery.settings import RecoverySettings
from schemas.action import ActionRequest, Mode, Outcome


@dataclass(frozen=True)
class Decision:
    """outcome: observed | dry-run | pending (go ahead) | waiting_approval | refused | rejected.
    trips_breaker: the caller must trip it, whatever else happens.
    """

    mode: Mode
    outcome: Outcome
    why: str
    refusal: Refusal | None = None
    trips_breaker: bool = False


def decide(request: ActionRequest, facts: Facts, settings: RecoverySettings) -> Decision:
    """One request, one decision, with its reason in words."""
    mode = settings.mode_of(request.kind)
    if mode == "observe":
        return Decision(mode, "observed", f"mode of {request.kind} is observe")
    known = certain(facts, mode)
    if known is None:
        missing = sorted(name for name, value in vars(facts).items() if value is None)
        return _refused(mode, Refusal.MISSING_FACTS, f"not known: {', '.join(missing)}")
    for refusal, check in CHECKS:
        why = check(request, known, settings)
        if why is not None:
            trips = refusal is Refusal.BREAKER_TRIPS and mode == "enforce"
            return _refused(mode, refusal, why, trips_breaker=trips)
    if mode == "dry-run":
        return Decision(mode, "dry-run", f"would be done: {request.reason}")
    return _approved(request, known.approvals.get(request.id, ()), settings)


def _refused(mode: Mode, refusal: Refusal, why: str, *, trips_breaker: bool = False) -> Decision:
    return Decision(mode, "refused", f"{refusal}: {why}", refusal, trips_breaker)


def _approved(request: ActionRequest, said: tuple[Approval, ...], settings: RecoverySettings) -> Decision:
    """One objection is enough; the same person twice is one person."""
    rejected = [approval.by for approval in said if approval.verdict == "rejected"]
    if rejected:
        return Decision("enforce", "rejected", f"rejected by {rejected[0]}")
    people = {approval.by.strip().casefold() for approval in said if approval.verdict == "approved"}
    needed = settings.approvals.get(request.kind, 0)
    if len(people) < needed:
        return Decision("enforce", "waiting_approval", f"approved by {len(people)} of {needed} people")
    return Decision("enforce", "pending", request.reason)
