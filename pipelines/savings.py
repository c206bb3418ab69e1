"""What an incident cost in GPU-seconds as it was, and what an earlier detection or automation would have saved of it.

As in a postmortem a GPU that an incident holds is lost whole, from onset to end. As in the closed loop
(pipelines.closed_loop) automation has the job back once the actions that were asked for have taken their time.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from pipelines.recovery.executors.simulator import SECONDS
from schemas.action import ActionRecord
from schemas.incident import Incident

# With one of these the job goes on, whatever repair takes; without any, people bring it back.
GOES_ON = ("resume", "restart_app", "isolate_port")
DONE = ("dry-run", "done")  # whatever else becomes of a request, nothing is done about the incident
ASSUMPTIONS = (
    "a GPU that an incident holds is lost whole, from onset to end (or to the end of the window)",
    "a detection that comes earlier by some seconds ends the loss as much earlier, people being as fast as they were",
    "automation does at once what recovery asks for with the given settings, and each action takes the simulator's "
    "time: " + ", ".join(f"{kind} {seconds:g} s" for kind, seconds in SECONDS.items()),
    "what is refused, only observed, put off or needs approval is left to people, who take as long as they took",
    "steps since the last checkpoint, and GPUs that only wait for those of the incident, are not counted",
)


@dataclass(frozen=True, kw_only=True)
class Savings:
    """In GPU-seconds. earlier: saved by when it is detected alone, negative where later. automated: saved where
    automation acts at that detection (earlier included). why: what automation would do, or why it would not.
    """

    lost: float = 0.0
    earlier: float = 0.0
    automated: float = 0.0
    why: str = ""


def savings(
    truth: Incident, was: datetime, caught: Incident | None, actions: Iterable[ActionRecord], until: datetime
) -> Savings:
    """truth: what was wrong. was: when it was detected without the change. caught: the incident with it, with the
    actions asked for; until: the end of the window, for what lasts.
    """
    gpus = len(truth.members)
    seconds = max(0.0, ((truth.ends_at or until) - truth.starts_at).total_seconds())
    lost = gpus * seconds
    if caught is None:
        return Savings(lost=lost, why="not caught")
    gain = min(seconds, (was - caught.detected_at).total_seconds())
    mine = [one for one in actions if one.request.incident == caught.id]
    done = [one.request.kind for one in mine if one.outcome in DONE]
    if not set(done) & set(GOES_ON):
        return Savings(lost=lost, earlier=gpus * gain, automated=gpus * gain, why=_left_to_people(mine))
    needed = (caught.detected_at - truth.starts_at).total_seconds() + sum(SECONDS.get(kind, 0.0) for kind in done)
    saved = max(gain, seconds - max(0.0, needed))
    return Savings(lost=lost, earlier=gpus * gain, automated=gpus * saved, why=", ".join(dict.fromkeys(done)))


def _left_to_people(actions: list[ActionRecord]) -> str:
    held = next((one for one in actions if one.outcome not in DONE and one.request.kind in GOES_ON), None)
    if held is not None:
        return f"people: {held.request.kind} is {held.outcome.replace('_', ' ')} ({held.why})"
    return "people: no action brings a job back from it" if actions else "people: nothing is asked for"
