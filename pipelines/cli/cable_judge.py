"""What `hotspare cable accept` judges: one fibre each, by one shot or by two from both ends."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from detectors.fiber.acceptance import Acceptance, Judgement
from detectors.fiber.batch import length_match
from detectors.fiber.bend import bends
from detectors.fiber.bidirectional import average
from detectors.fiber.event_loss import EventLoss
from detectors.fiber.reason import Reason, Verdict, whole
from detectors.fiber.span import Reels, Span, locate
from pipelines.cli.cable_change import Change, change
from pipelines.cli.cable_files import ShotFile, baseline_of


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How to judge. match_meters: allowed difference of length in a group; groups: cable to its group, where known.
    lengths: what each cable should measure, where that is not one length for all.
    """

    acceptance: Acceptance
    reels: Reels
    macrobend_db: float
    both_ends: bool = False
    baselines: Sequence[ShotFile] | None = None
    detector: EventLoss = field(default_factory=EventLoss)
    match_meters: float | None = None
    groups: Mapping[str, str] = field(default_factory=dict)
    lengths: Mapping[str, float] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Fiber:
    """One fibre judged. files: one, or two from both ends. change: against its baseline, where there is one."""

    files: tuple[ShotFile, ...]
    judgement: Judgement
    more: tuple[Reason, ...] = ()
    baseline: str | None = None
    change: Change | None = None
    warning: str = ""

    @property
    def reasons(self) -> tuple[Reason, ...]:
        return (*self.judgement.reasons, *self.more)

    @property
    def verdict(self) -> Verdict:
        return whole(self.reasons)


def judge(files: Sequence[ShotFile], plan: Plan) -> list[Fiber]:
    """Every fibre of the files, in their order."""
    resolution = plan.acceptance.resolution
    units = [(unit, _span(unit, plan)) for unit in _units(files, plan)]
    fibers = [_judged(unit, span, plan) for unit, span in units]
    if plan.baselines is not None:
        fibers = [_against_baseline(fiber, plan.baselines, plan) for fiber in fibers]
    more: list[list[Reason]] = [[] for _ in fibers]
    spans = [fiber.judgement.span for fiber in fibers]
    for same in _grouped([f"{span.shot.cable}\0{span.shot.fiber}" for span in spans]):
        for span, reason in bends([spans[index] for index in same], resolution, delta_db=plan.macrobend_db):
            more[next(index for index in same if spans[index] is span)].append(reason)
    if plan.match_meters is not None:
        for group in _grouped([plan.groups.get(span.shot.cable, "") for span in spans]):
            matched = length_match([spans[index] for index in group], plan.match_meters, resolution)
            for index, unmatched in zip(group, matched, strict=True):
                more[index] += [] if unmatched is None else [unmatched]
    return [replace(fiber, more=(*fiber.more, *more[index])) for index, fiber in enumerate(fibers)]


def _grouped(keys: Sequence[str]) -> list[list[int]]:
    """Indices of equal keys together, in the order in which they first come."""
    groups: dict[str, list[int]] = defaultdict(list)
    for index, key in enumerate(keys):
        groups[key].append(index)
    return list(groups.values())


def _units(files: Sequence[ShotFile], plan: Plan) -> list[tuple[ShotFile, ...]]:
    """Files that are judged together: those of one fibre and wavelength when shot from both ends."""
    if not plan.both_ends:
        return [(each,) for each in files]
    keys = [f"{each.shot.cable}\0{each.shot.fiber}\0{each.shot.wavelength_nanometers}" for each in files]
    return [tuple(files[index] for index in indices) for indices in _grouped(keys)]


def _span(unit: tuple[ShotFile, ...], plan: Plan) -> Span:
    spans = [locate(each.shot, plan.reels, plan.acceptance.resolution) for each in unit]
    if not plan.both_ends:
        return spans[0]
    if len(spans) == 2:
        return average(spans[0], spans[1], plan.acceptance.resolution)
    text = f"{len(spans)} shot(s) of this fibre and wavelength, two are wanted, one from each end"
    problem = Reason("pair", "UNRESOLVABLE", text)
    return replace(spans[0], problem=problem, length_meters=None, total_loss_db=None)


def _judged(unit: tuple[ShotFile, ...], span: Span, plan: Plan) -> Fiber:
    if plan.lengths is None:
        return Fiber(files=unit, judgement=plan.acceptance.judge(span))
    wanted = plan.lengths.get(span.shot.cable)
    judgement = replace(plan.acceptance, length_meters=wanted).judge(span)
    text = f"the topology does not say how long cable {span.shot.cable} should be"
    unknown = (Reason("length", "UNRESOLVABLE", text),) if wanted is None else ()
    return Fiber(files=unit, judgement=judgement, more=unknown)


def _against_baseline(fiber: Fiber, baselines: Sequence[ShotFile], plan: Plan) -> Fiber:
    span, resolution = fiber.judgement.span, plan.acceptance.resolution
    found, said = baseline_of(fiber.files[0].shot, baselines)
    if found is None:
        return _not_compared(fiber, said)
    before = locate(found.shot, plan.reels, resolution)
    if span.problem is not None and span.problem.name == "reel":
        # Behind a break there is no tail reel to be seen.
        span = locate(fiber.files[0].shot, replace(plan.reels, tail_meters=None), resolution)
    for which, each in (("baseline", before), ("shot", span)):
        if each.problem is not None:
            return _not_compared(fiber, f"not compared with {found.path}: {which}: {each.problem.text}")
    changed = change(before, span, plan.detector, resolution)
    if changed.another_fibre is not None:
        return _not_compared(fiber, f"{found.path}: {changed.another_fibre}")
    reasons = tuple(Reason("changed", "FAIL", said_of(finding)) for finding in changed.findings)
    return replace(fiber, baseline=str(found.path), change=changed, more=(*fiber.more, *reasons), warning=said)


def _not_compared(fiber: Fiber, why: str) -> Fiber:
    return replace(fiber, more=(*fiber.more, Reason("baseline", "UNRESOLVABLE", why)))


def said_of(finding: Mapping[str, Any]) -> str:
    """One line of a change: where, how much, what it looks like and what to do."""
    seen = finding["evidence"]
    match finding["code"]:
        case "break":
            what = f"ends at {seen['end_meters']:.1f} m, before at {seen['base_end_meters']:.1f} m"
        case "total_loss":
            what = f"loses {seen['total_grown_db']:.3f} dB more in all"
        case "reflectance":
            what = f"{seen['reflectance_meters']:.1f} m: reflects {seen['reflectance_db']:.1f} dB"
        case _:
            what = f"{seen['loss_meters']:.1f} m: loses {seen['loss_grown_db']:.3f} dB more"
    return f"{what} ({finding['signature']}): {finding['advice']}"
