"""Heat: from the electrical power of a GPU through its cold plate into the coolant, and what a GPU does when hot.

A plate is a heat exchanger of one stream: effectiveness 1 - exp(-NTU). With no flow it takes no heat, and the plate
warms at power over heat capacity: 1.4 K/s at 700 W.
"""

import numpy as np

from replay.randomness import Flags, Floats

# PG25 at 50 C (domain.md 4.6): density and specific heat; per L/min a stream carries 66.5 W/K.
COOLANT_KILOGRAMS_PER_LITER = 1.015
COOLANT_JOULES_PER_KILOGRAM_KELVIN = 3930.0
WATTS_PER_KELVIN_PER_LITER_PER_MINUTE = COOLANT_KILOGRAMS_PER_LITER * COOLANT_JOULES_PER_KILOGRAM_KELVIN / 60
WATER_WATTS_PER_KELVIN_PER_LITER_PER_MINUTE = 0.996 * 4180.0 / 60  # facility water at 30 C

# 0.6 kg of copper and 60 mL of coolant: an assumption of domain.md 4.6.
PLATE_JOULES_PER_KELVIN = 510.0
# 1.5 L/min per kW (OCP; domain.md 4.6) for a 700 W board.
PLATE_LITERS_PER_MINUTE = 1.05
# Chosen so that 690 W at nominal flow stands 30 K above the inlet, i.e. about 65 C at 35 C supply.
CONDUCTION_KELVIN_PER_WATT = 0.024
CONVECTION_KELVIN_PER_WATT = 0.0118
# Turbulent convection grows with flow to the power 0.8 (Dittus-Boelter).
CONVECTION_EXPONENT = 0.8

# Margins of an H100 SXM board (domain.md 4.1): it acts at 87, slows in hardware 2 K above, shuts down 8 K above.
ACTING_CELSIUS = 87.0
HARDWARE_SLOWDOWN_CELSIUS = 89.0
SHUTDOWN_CELSIUS = 95.0
CLOCK_SHARE_MINIMUM = 345 / 1980
HARDWARE_CLOCK_SHARE = 0.5
CLOCK_SHARE_PER_KELVIN = 0.2


def plate_conductance(flow_liters_per_minute: Floats, conduction_kelvin_per_watt: Floats) -> Floats:
    """Watts into the coolant per kelvin between GPU and inlet; zero without flow."""
    flow = np.maximum(flow_liters_per_minute, 1e-9)
    stream = WATTS_PER_KELVIN_PER_LITER_PER_MINUTE * flow
    convection = CONVECTION_KELVIN_PER_WATT * (PLATE_LITERS_PER_MINUTE / flow) ** CONVECTION_EXPONENT
    transfer_units = 1 / (conduction_kelvin_per_watt + convection) / stream
    return np.asarray(stream * -np.expm1(-transfer_units))


def temperature_after(temperature: Floats, power_watts: Floats, heat_watts: Floats, seconds: float = 1.0) -> Floats:
    """Celsius after `seconds` of `power_watts` in and `heat_watts` out."""
    return temperature + (power_watts - heat_watts) * seconds / PLATE_JOULES_PER_KELVIN


def outlet_rise(heat_watts: Floats, flow_liters_per_minute: Floats) -> Floats:
    """Kelvin between outlet and inlet of a stream that takes the heat: Q = rho V cp dT. Zero without flow."""
    stream = WATTS_PER_KELVIN_PER_LITER_PER_MINUTE * flow_liters_per_minute
    return np.divide(heat_watts, stream, out=np.zeros_like(heat_watts), where=stream > 1e-6)


def clock_share_after(share: Floats, temperature: Floats) -> tuple[Floats, Flags]:
    """What is left of the clock one second later (1 = all of it), and where hardware holds it down.

    Above the acting limit software wants a fifth of the clock off per kelvin, and moves there by at most a tenth a
    second down and a twentieth up. An assumption: boards do not publish their control law.
    """
    hardware = temperature >= HARDWARE_SLOWDOWN_CELSIUS
    wanted = np.clip(1.0 - CLOCK_SHARE_PER_KELVIN * (temperature - ACTING_CELSIUS), CLOCK_SHARE_MINIMUM, 1.0)
    moved = share + np.clip(wanted - share, -0.1, 0.05)
    return np.minimum(moved, np.where(hardware, HARDWARE_CLOCK_SHARE, 1.0)), hardware


def power_share(clock_share: Floats) -> Floats:
    """Dynamic power goes with clock times voltage squared, and voltage roughly with the clock's root."""
    return clock_share**2
