"""The guard: may this request be carried out now? Pure, and fail closed: what is not known is a reason to refuse."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from pipelines.recovery.checks import CHECKS, Refusal, deadline_of, earlier_not_done, is_last_chance
from pipelines.recovery.facts import CertainFacts, Facts, certain
from pipelines.recovery.settings import RecoverySettings
from schemas.action import ActionRequest, Mode, Outcome


@dataclass(frozen=True)
class Decision:
    """outcome: observed | dry-run | scheduled | pending (go ahead) | waiting_approval | refused | rejected.
    trips_breaker: the caller must trip it, whatever else happens.
    """

    mode: Mode
    outcome: Outcome
    why: str
    refusal: Refusal | None = None
    trips_breaker: bool = False


def decide(request: ActionRequest, facts: Facts, settings: RecoverySettings) -> Decision:
    """One request, one decision, with its reason in words."""
    mode = mode_for(request, settings)
    if mode == "observe":
        return Decision(mode, "observed", f"mode of {request.kind} is observe, or that of who calls for it")
    known = certain(facts, mode)
    if known is None:
        missing = sorted(name for name, value in vars(facts).items() if value is None)
        return _refused(mode, Refusal.MISSING_FACTS, f"not known: {', '.join(missing)}")
    for refusal, check in CHECKS:
        why = check(request, known, settings)
        if why is not None:
            trips = refusal is Refusal.BREAKER_TRIPS and mode == "enforce"
            return _refused(mode, refusal, why, trips_breaker=trips)
    due = _due_at(request, known)
    if due is not None and facts.now < due:
        return Decision(mode, "scheduled", f"at {due:%H:%M:%S}, if it lasts until then: {request.reason}")
    if mode == "dry-run":
        return Decision(mode, "dry-run", f"would be done{_conditions(request, settings)}: {request.reason}")
    return _approved(request, known, settings)


def mode_for(request: ActionRequest, settings: RecoverySettings) -> Mode:
    return settings.mode_of(request.kind, request.parameters.get("detectors", ()))


def _due_at(request: ActionRequest, facts: CertainFacts) -> datetime | None:
    """The earlier step gets its time to work. The checks have made sure that it is done, or that nothing can wait."""
    if is_last_chance(request, facts.now):
        return None
    earlier = facts.known.get(str(request.parameters.get("after")))
    settle = request.parameters.get("settle_seconds")
    return None if earlier is None or settle is None else earlier.at + timedelta(seconds=settle)


def _refused(mode: Mode, refusal: Refusal, why: str, *, trips_breaker: bool = False) -> Decision:
    return Decision(mode, "refused", f"{refusal}: {why}", refusal, trips_breaker)


def _conditions(request: ActionRequest, settings: RecoverySettings) -> str:
    """What else it would wait for, if it were to be carried out."""
    needed = settings.approvals.get(request.kind, 0)
    if not needed:
        return ""
    deadline = deadline_of(request)
    alone = "" if deadline is None else f", or without them at {deadline:%H:%M:%S}"
    return f" once {needed} people approve{alone}"


def _approved(request: ActionRequest, facts: CertainFacts, settings: RecoverySettings) -> Decision:
    """One objection is enough, deadline or not; the same person twice is one person."""
    said, now, reason = facts.approvals.get(request.id, ()), facts.now, request.reason
    if is_last_chance(request, now) and (missing := earlier_not_done(request, facts)) is not None:
        reason = f"{reason}; {missing}, and what was not saved is lost either way"
    rejected = [approval.by for approval in said if approval.verdict == "rejected"]
    if rejected:
        return Decision("enforce", "rejected", f"rejected by {rejected[0]}")
    people = {approval.by.strip().casefold() for approval in said if approval.verdict == "approved"}
    needed = settings.approvals.get(request.kind, 0)
    if len(people) < needed:
        deadline = deadline_of(request)
        so_far = f"approved by {len(people)} of {needed} people"
        if deadline is None:
            return Decision("enforce", "waiting_approval", so_far)
        if now < deadline:
            return Decision("enforce", "waiting_approval", f"{so_far}; done without them at {deadline:%H:%M:%S}")
        return Decision("enforce", "pending", f"{so_far}, and its deadline has come: {reason}")
    return Decision("enforce", "pending", reason)
