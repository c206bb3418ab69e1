"""What an OTDR can tell apart: dead zones, the uncertainty of a length, and the verdict on a tolerance."""

from dataclasses import dataclass
from math import hypot, sqrt

from detectors.fiber.reason import Verdict
from detectors.fiber.shot import Shot

SPEED_OF_LIGHT_METERS_PER_NANOSECOND = 0.299792458
COVERAGE = 2.0  # expanded uncertainty, about 95 %


@dataclass(frozen=True, kw_only=True)
class Resolution:
    """What follows from pulse width, sampling and group index of a shot.

    Attenuation dead zone (until the backscatter line is back, so that a loss can be measured) behind a reflection:
    pulse * c / 2n + recovery_meters. recovery_meters 3: the public sample traces need 11.7 to 12.8 m at 100 ns (pulse
    10.2 m) and 3.4 to 4.8 m at 10 and 20 ns behind connectors of -44 to -58 dB; brighter ones need more (8.9 m at
    10 ns and -35 dB). Behind a splice or bend, which does not reflect: pulse * c / 2n + event_recovery_meters, 0.5.

    Length: expanded uncertainty (coverage 2) of rectangular terms, as in the GUM: the group index is known to
    group_index_uncertainty (1e-3 is 6.8 cm in 100 m), each end lies within half a sample and within half a pulse.
    Two lengths measured alike, same pulse and index, share the errors of pulse and index; only sampling remains.
    """

    recovery_meters: float = 3.0
    event_recovery_meters: float = 0.5
    group_index_uncertainty: float = 0.001
    group_index: float = 1.468
    same_place_meters_minimum: float = 1.0

    def pulse_meters(self, shot: Shot) -> float:
        index = shot.group_index or self.group_index
        return (shot.pulse_nanoseconds or 0.0) * SPEED_OF_LIGHT_METERS_PER_NANOSECOND / 2 / index

    def dead_zone_meters(self, shot: Shot, *, reflective: bool = True) -> float:
        return self.pulse_meters(shot) + (self.recovery_meters if reflective else self.event_recovery_meters)

    def same_place_meters(self, shot: Shot) -> float:
        """So far apart two readings may be and still be of one event; 1 m: the accuracy data sheets give at zero."""
        spacing = 2 * (shot.sample_spacing_meters or 0.0)
        return max(self.pulse_meters(shot), spacing, self.same_place_meters_minimum)

    def length_uncertainty_meters(self, shot: Shot, length_meters: float) -> float:
        index = length_meters * self.group_index_uncertainty / (shot.group_index or self.group_index) / sqrt(3)
        ends = hypot(shot.sample_spacing_meters or 0.0, self.pulse_meters(shot)) / sqrt(6)
        return COVERAGE * hypot(index, ends)

    def pair_uncertainty_meters(self, one: Shot, other: Shot) -> float:
        """Of the difference of two lengths, each the distance of two events of one trace."""
        alike = one.pulse_nanoseconds == other.pulse_nanoseconds and one.group_index == other.group_index
        spacings = hypot(one.sample_spacing_meters or 0.0, other.sample_spacing_meters or 0.0) / sqrt(6)
        pulses = 0.0 if alike else hypot(self.pulse_meters(one), self.pulse_meters(other)) / sqrt(6)
        return COVERAGE * hypot(spacings, pulses)


def decide(deviation: float, tolerance: float, uncertainty: float) -> Verdict:
    """PASS or FAIL only where the uncertainty cannot change it (the decision rule of ISO 14253-1)."""
    if deviation + uncertainty <= tolerance:
        return "PASS"
    return "FAIL" if deviation - uncertainty > tolerance else "UNRESOLVABLE"
