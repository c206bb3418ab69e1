"""The guard: may this request be carried out now? Pure, and fail closed: what is not known is a reason to refuse."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from pipelines.recovery.checks import CHECKS, Refusal, awaited, deadline_of, earlier_not_done, is_last_chance
from pipelines.recovery.facts import Approval, CertainFacts, Facts, certain
from pipelines.recovery.settings import RecoverySettings
from schemas.action import ActionRequest, Mode, Outcome


@dataclass(frozen=True)
class Decision:
    """outcome: observed | dry-run | scheduled | pending (go ahead) | waiting_approval | refused | rejected.
    trips_breaker: the caller must trip it, whatever else happens. approval: parameters that say, whatever becomes of
    the action, who or what let it go ahead; none where nobody is asked.
    """

    mode: Mode
    outcome: Outcome
    why: str
    refusal: Refusal | None = None
    trips_breaker: bool = False
    approval: Mapping[str, str] = field(default_factory=dict)


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
            steps = awaited(request, known) if refusal is Refusal.EARLIER_STEP_NOT_DONE else ""
            trips = refusal is Refusal.BREAKER_TRIPS and mode == "enforce"
            return (
                _scheduled(f"once {steps} is done", request, known, settings) if steps
                else _refused(mode, refusal, why, trips_breaker=trips)
            )  # fmt: skip
    due = _due_at(request, known)
    if due is not None and facts.now < due:
        return _scheduled(f"at {due:%H:%M:%S}, if it lasts until then", request, known, settings)
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
    if earlier is None or settle is None:
        return None
    since = request.parameters.get("lasts_since")  # what helped then has its time again, when the trouble is back
    begins = earlier.at if since is None else max(earlier.at, datetime.fromisoformat(since))
    return begins + timedelta(seconds=settle)


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


def _scheduled(when: str, request: ActionRequest, facts: CertainFacts, settings: RecoverySettings) -> Decision:
    """Not due yet; who approves it now has done so when it is."""
    needed = settings.approvals.get(request.kind, 0)
    if facts.mode == "enforce" and needed:
        when = f"{when}; approved by {len(_people(request, facts))} of {needed} people so far"
    return Decision(facts.mode, "scheduled", f"{when}: {request.reason}")


def _people(request: ActionRequest, facts: CertainFacts) -> dict[str, Approval]:
    """Who approves it, and what each said last; one who writes the name in other letters is no other person."""
    said = facts.approvals.get(request.id, ())
    return {one.by.strip().casefold(): one for one in said if one.verdict == "approved"}


def promised(request: ActionRequest, decision: Decision, left: int) -> tuple[ActionRequest, Decision]:
    """A rehearsed allocation that would get fewer spares than it wants says how many. left: the fit ones that no other
    rehearsal was promised.
    """
    wanted, would_get = int(request.parameters.get("count", 1)), max(0, left)
    if not request.parameters.get("partial") or would_get >= wanted:
        return request, decision
    if not would_get:
        return request, _refused(decision.mode, Refusal.NO_SPARE, "too few that are fit and outside the failed domain")
    request = replace(request, parameters={**request.parameters, "would_get": would_get})
    return request, replace(decision, why=f"{decision.why}; {would_get} of the {wanted} wanted")


def _approved(request: ActionRequest, facts: CertainFacts, settings: RecoverySettings) -> Decision:
    """One objection is enough, deadline or not; the same person twice is one person."""
    said, now, reason = facts.approvals.get(request.id, ()), facts.now, request.reason
    if is_last_chance(request, now) and (missing := earlier_not_done(request, facts)) is not None:
        reason = f"{reason}; {missing}, and what was not saved is lost either way"
    rejected = [approval.by for approval in said if approval.verdict == "rejected"]
    if rejected:
        return Decision("enforce", "rejected", f"rejected by {rejected[0]}")
    people = _people(request, facts)
    approved = list(people.values())
    needed = settings.approvals.get(request.kind, 0)
    if len(people) < needed:
        deadline = deadline_of(request)
        so_far = f"approved by {len(people)} of {needed} people"
        if deadline is None:
            return Decision("enforce", "waiting_approval", so_far)
        if now < deadline:
            return Decision("enforce", "waiting_approval", f"{so_far}; done without them at {deadline:%H:%M:%S}")
        by_itself = f"{so_far}, and its deadline has come"
        return Decision("enforce", "pending", f"{by_itself}: {reason}", approval=_carried(by_itself, approved))
    if not needed:
        return Decision("enforce", "pending", reason)
    by_people = f"approved by {' and '.join(one.by.strip() for one in approved)}"
    return Decision("enforce", "pending", f"{by_people}: {reason}", approval=_carried(by_people, approved))


def _carried(approval: str, approved: Sequence[Approval]) -> dict[str, str]:
    """approved_at: by the clock of who approved last, which is not that of the telemetry."""
    last = max((one.at for one in approved), default=None)
    return {"approval": approval} | ({} if last is None else {"approved_at": last.isoformat()})
