"""How long a GPU has when its coolant fails: a plate is a few hundred joules per kelvin between power and limit."""

import polars as pl

# PG25 at 50 C (domain.md 4.6): 1.015 kg/L times 3930 J/kg K over 60 s.
COOLANT_WATTS_PER_KELVIN_PER_LITER_PER_MINUTE = 1.015 * 3930.0 / 60
LITERS_PER_MINUTE_PER_KILOWATT = 1.5  # OCP (domain.md 4.6), at which a plate's resistance is the nominal one
CONVECTION_EXPONENT = 0.8  # Dittus-Boelter: turbulent convection with flow
NEVER = float("inf")


def resistance(flow_share: pl.Expr, *, kelvin_per_watt: float, power_watts: float, convection_share: float) -> pl.Expr:
    """Kelvin per watt between a GPU and its inlet when flow_share of the nominal flow is left (infinite at none).

    kelvin_per_watt: at nominal flow. Its three parts: half the coolant's own rise over the plate, 1 / (2 m cp), grows
    as flow falls; convection (convection_share of the rest) with flow to the power 0.8; conduction stays.
    """
    stream = COOLANT_WATTS_PER_KELVIN_PER_LITER_PER_MINUTE * LITERS_PER_MINUTE_PER_KILOWATT * power_watts / 1000
    coolant = 1 / (2 * stream)
    rest = kelvin_per_watt - coolant
    left = flow_share.clip(1e-6, None)
    convection = rest * convection_share / left**CONVECTION_EXPONENT
    return coolant / left + convection + rest * (1 - convection_share)


def seconds_until(  # noqa: PLR0913  # the terms of one equation, by keyword
    limit_celsius: float,
    *,
    celsius: pl.Expr,
    inlet_celsius: pl.Expr,
    power_watts: pl.Expr,
    kelvin_per_watt: pl.Expr,
    joules_per_kelvin: float,
) -> pl.Expr:
    """Seconds until a plate that is at `celsius` reaches the limit at this power, inlet and resistance.

    It goes to inlet + R P with the time constant R C: t = R C ln((end - now) / (end - limit)). Without flow, where R
    has no end, that is C (limit - now) / P. Infinite when it never gets there, zero when it is there; milliseconds.
    """
    end = inlet_celsius + kelvin_per_watt * power_watts
    constant = kelvin_per_watt * joules_per_kelvin
    curved = constant * ((end - celsius) / (end - limit_celsius)).log()
    straight = joules_per_kelvin * (limit_celsius - celsius) / power_watts
    # Far from its end the curve is a straight line, and the logarithm of nearly 1 has few digits left.
    left = pl.when(end - celsius > 1e4).then(straight).otherwise(curved)
    reaches = (end > limit_celsius) & (power_watts > 0)
    return pl.when(celsius >= limit_celsius).then(0.0).when(reaches).then(left).otherwise(NEVER).round(3)
