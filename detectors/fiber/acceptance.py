"""Acceptance of a fibre: every event, the whole loss and the length against their limits, and one verdict."""

from dataclasses import dataclass, field

import polars as pl

from detectors.fiber.limits import GRADES, Limits
from detectors.fiber.reason import Reason, Verdict, whole
from detectors.fiber.resolution import Resolution, decide
from detectors.fiber.span import Span
from detectors.fiber.span_events import event_reasons, judged_events

LONG_SPAN_ZONES = 10.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Judgement:
    """events: those of the span with limit_db, verdict (- where not judged) and reason."""

    span: Span
    reasons: tuple[Reason, ...]
    events: pl.DataFrame
    length_uncertainty_meters: float | None
    budget_db: float | None

    @property
    def verdict(self) -> Verdict:
        return whole(self.reasons)


@dataclass(frozen=True, kw_only=True)
class Acceptance:
    """Judges loss and reflectance of each connector and splice, the whole loss, and the length if one is asked.

    A reflection is taken for a connector, an event without one for a splice. Events closer to each other than a dead
    zone are judged by their sum, as instruments judge merged events: at most the smallest limit passes, more than all
    limits together fails, between them it cannot be told (EXFO manuals). budget_db None: the fibre's attenuation and
    the limit of every connector and splice seen; end connectors count where a reel shows them (Fluke manuals). Without
    a launch reel the level at the near end is extrapolated over a dead zone, which is trusted only for a span of ten
    dead zones or a budget that was given. gainer_db: a loss further below zero is no measurement but unlike fibres,
    and the mean of both directions decides; 0.1 is twice the usual linearity of 0.05 dB (an assumption).

    UNRESOLVABLE is the honest answer where the shot does not tell: no end of fibre, events in dead zones, a tolerance
    finer than the uncertainty, a saturated reflection below the limit (its reading is a floor), or nothing measured at
    all. What it cannot see: end connectors without reels; splice loss hidden in one direction; ghosts before the end;
    an event that the instrument did not list.
    """

    limits: Limits = GRADES[0]
    resolution: Resolution = field(default_factory=Resolution)
    budget_db: float | None = None
    length_meters: float | None = None
    length_tolerance_meters: float | None = None
    gainer_db: float = 0.1

    def judge(self, span: Span) -> Judgement:
        """The verdict on a span of one shot, or of two averaged (detectors.fiber.bidirectional)."""
        events = judged_events(span, self.limits, self.resolution, gainer_db=self.gainer_db)
        if span.problem is not None or span.length_meters is None:
            told = () if span.problem is None else (span.problem,)
            return Judgement(
                span=span, reasons=told, events=events, length_uncertainty_meters=None, budget_db=self.budget_db
            )
        reasons = event_reasons(events)
        budget = self._budget(span, events)
        uncertainty = self.resolution.length_uncertainty_meters(span.shot, span.length_meters)
        more = (self._total(span, budget), self._length(span.length_meters, uncertainty))
        reasons += [reason for reason in more if reason is not None]
        if not reasons and budget is None and "PASS" not in events["verdict"]:
            text = "both end connectors lie in dead zones and nothing is between: shoot with launch and tail reels"
            reasons.append(Reason("nothing_measured", "UNRESOLVABLE", text))
        return Judgement(
            span=span, reasons=tuple(reasons), events=events, length_uncertainty_meters=uncertainty, budget_db=budget
        )

    def _budget(self, span: Span, events: pl.DataFrame) -> float | None:
        """What the whole may lose; None where none was given and the near end is not known well enough for one."""
        if self.budget_db is not None:
            return self.budget_db
        length, zone = span.length_meters or 0.0, self.resolution.dead_zone_meters(span.shot)
        if span.total_loss_db is None or not (span.near_seen or length >= LONG_SPAN_ZONES * zone):
            return None
        attenuation = self.limits.attenuation_at(span.shot.wavelength_nanometers)
        return attenuation * length / 1000 + float(events["limit_db"].sum())

    def _total(self, span: Span, budget: float | None) -> Reason | None:
        if budget is None:
            return None
        if span.total_loss_db is None:
            return Reason("total_loss", "UNRESOLVABLE", "the whole loss cannot be measured in this shot")
        if span.total_loss_db <= budget:
            return None
        return Reason("total_loss", "FAIL", f"loses {span.total_loss_db:.3f} dB in all, budget {budget:.3f}")

    def _length(self, length_meters: float, uncertainty: float) -> Reason | None:
        if self.length_meters is None or self.length_tolerance_meters is None:
            return None
        deviation = length_meters - self.length_meters
        verdict = decide(abs(deviation), self.length_tolerance_meters, uncertainty)
        if verdict == "PASS":
            return None
        wanted = f"wanted {self.length_meters:g} +- {self.length_tolerance_meters:g}"
        finer = verdict == "UNRESOLVABLE" and self.length_tolerance_meters < uncertainty
        why = "; the tolerance is finer than the shot resolves" if finer else ""
        return Reason("length", verdict, f"{length_meters:.2f} m +- {uncertainty:.2f}, {wanted}{why}")
