"""How long until a GPU throttles and until it shuts itself down, when its coolant stops or slows: heat balance alone.

A body of heat capacity C that takes P watts and gives UA watts per kelvin to a sink at Tc follows
dT/dt = (P - UA (T - Tc)) / C: it comes exponentially, with the time constant C / UA, to Tc + P / UA. A limit at or
above that is never reached; without flow UA is 0 and the way up is a straight line of P / C.

The plate of a GPU is a heat exchanger of one stream, UA = m cp (1 - exp(-1 / (R m cp))), where R is conduction
through lid and paste plus convection, which goes with flow^-0.8 (Dittus-Boelter). Flow is per share of 1.05 L/min
(1.5 L/min per kW, OCP) of PG25 (1.015 kg/L, 3930 J/(kg K)): 69.8 W/K. R is chosen so that 700 W at full flow stand
30 K above the supply, 65 C at 35 C, two thirds of it conduction; the plate holds 510 J/K (domain.md 4.6, assumptions).
The volume of the loop is left out: it only delays how the supply follows, and the supply is measured.
"""

import math
from dataclasses import dataclass

PLATE_JOULES_PER_KELVIN = 510.0
GPU_WATTS = 700.0
SUPPLY_CELSIUS = 35.0
THROTTLE_CELSIUS, SHUTDOWN_CELSIUS = 87.0, 95.0  # where an H100 SXM acts (domain.md 4.1)
STREAM_WATTS_PER_KELVIN = 1.05 * 1.015 * 3930.0 / 60
CONDUCTION_KELVIN_PER_WATT, CONVECTION_KELVIN_PER_WATT = 0.024, 0.01122
CONVECTION_EXPONENT = 0.8
FLOW_SHARE_MINIMUM = 1e-6
NO_CONDUCTANCE = 1e-9


@dataclass(frozen=True, kw_only=True)
class Body:
    """What takes `watts` and gives `watts_per_kelvin` to a sink at `sink_celsius`."""

    joules_per_kelvin: float
    watts: float
    watts_per_kelvin: float
    sink_celsius: float

    def equilibrium_celsius(self) -> float:
        """Where it comes to in the end; infinite when no heat is carried away."""
        return (
            math.inf
            if self.watts_per_kelvin <= NO_CONDUCTANCE
            else self.sink_celsius + self.watts / self.watts_per_kelvin
        )

    def celsius_after(self, celsius: float, seconds: float) -> float:
        """Its temperature so many seconds after it was at `celsius`."""
        rate = self._kelvin_per_second(celsius)
        if self.watts_per_kelvin <= NO_CONDUCTANCE:
            return celsius + rate * seconds
        per_second = self.watts_per_kelvin / self.joules_per_kelvin
        return celsius - rate / per_second * math.expm1(-seconds * per_second)

    def seconds_until(self, limit_celsius: float, celsius: float) -> float | None:
        """From `celsius` up to the limit; 0.0 when it is there already, None when it never gets there."""
        if celsius >= limit_celsius:
            return 0.0
        rate = self._kelvin_per_second(celsius)
        if rate <= 0 or self.equilibrium_celsius() <= limit_celsius:
            return None
        if self.watts_per_kelvin <= NO_CONDUCTANCE:
            return (limit_celsius - celsius) / rate
        per_second = self.watts_per_kelvin / self.joules_per_kelvin
        return -math.log1p(-(limit_celsius - celsius) * per_second / rate) / per_second

    def _kelvin_per_second(self, celsius: float) -> float:
        return (self.watts - self.watts_per_kelvin * (celsius - self.sink_celsius)) / self.joules_per_kelvin


def plate(flow_share: float, supply_celsius: float = SUPPLY_CELSIUS, watts: float = GPU_WATTS) -> Body:
    """The cold plate of a GPU that gets this share of its flow."""
    return Body(
        joules_per_kelvin=PLATE_JOULES_PER_KELVIN, watts=watts, sink_celsius=supply_celsius,
        watts_per_kelvin=plate_watts_per_kelvin(flow_share),
    )  # fmt: skip


def plate_watts_per_kelvin(flow_share: float) -> float:
    """UA of a plate: 23.3 W/K at full flow, nothing without."""
    if flow_share <= FLOW_SHARE_MINIMUM:
        return 0.0
    stream = STREAM_WATTS_PER_KELVIN * flow_share
    resistance = CONDUCTION_KELVIN_PER_WATT + CONVECTION_KELVIN_PER_WATT * flow_share**-CONVECTION_EXPONENT
    return -stream * math.expm1(-1.0 / (resistance * stream))


def seconds_to_shutdown(flow_share: float, supply_celsius: float = SUPPLY_CELSIUS) -> float | None:
    """From full load at full flow, when from one instant on only this share of the flow is left."""
    before = plate(1.0, supply_celsius).equilibrium_celsius()
    return plate(flow_share, supply_celsius).seconds_until(SHUTDOWN_CELSIUS, before)
