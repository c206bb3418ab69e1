"""Units as sources write them, to the units of the tables. A reading is converted here once, at the door.

value in the table's unit = value * factor + offset. Exact by definition: US gallon 3.785411784 L, pound-force per
square inch 6.894757293168 kPa, 0 C = 273.15 K = 32 F, 1 kWh = 3.6 MJ. UCUM codes ([gal_us]/min, [degF]) are Redfish's.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Conversion:
    factor: float = 1.0
    offset: float = 0.0

    def of(self, value: float) -> float:
        return value * self.factor + self.offset


_SAME = Conversion()
_GALLONS = Conversion(3.785411784)
_PSI = Conversion(6.894757293168)
_FAHRENHEIT = Conversion(5 / 9, -160 / 9)

# The table's unit (a column's metadata) -> how sources write units of its kind. Pressures are taken as gauge pressures.
UNITS: dict[str, dict[str, Conversion]] = {
    "celsius": {
        "C": _SAME, "Cel": _SAME, "degC": _SAME, "°C": _SAME, "F": _FAHRENHEIT, "degF": _FAHRENHEIT, "°F": _FAHRENHEIT,
        "[degF]": _FAHRENHEIT, "fahrenheit": _FAHRENHEIT, "K": Conversion(1.0, -273.15),
    },
    "liters per minute": {
        "L/min": _SAME, "LPM": _SAME, "L/m": _SAME, "gal/min": _GALLONS, "GPM": _GALLONS, "[gal_us]/min": _GALLONS,
        "gallons per minute": _GALLONS, "L/s": Conversion(60.0), "m3/h": Conversion(1000 / 60),
        "m3/s": Conversion(60_000.0),
    },
    "kilopascals": {
        "kPa": _SAME, "Pa": Conversion(1e-3), "MPa": Conversion(1e3), "bar": Conversion(100.0),
        "mbar": Conversion(0.1), "psi": _PSI, "[psi]": _PSI, "psig": _PSI,
    },
    "watts": {
        "W": _SAME, "mW": Conversion(1e-3), "uW": Conversion(1e-6), "kW": Conversion(1e3), "MW": Conversion(1e6),
    },
    "kilowatts": {"kW": _SAME, "W": Conversion(1e-3), "MW": Conversion(1e3)},
    "joules": {
        "J": _SAME, "uJ": Conversion(1e-6), "mJ": Conversion(1e-3), "kJ": Conversion(1e3), "Wh": Conversion(3600.0),
        "kWh": Conversion(3.6e6), "kW.h": Conversion(3.6e6),
    },
    "volts": {"V": _SAME, "mV": Conversion(1e-3), "kV": Conversion(1e3)},
    "amperes": {"A": _SAME, "mA": Conversion(1e-3), "kA": Conversion(1e3)},
    "milliamps": {"mA": _SAME, "A": Conversion(1e3), "uA": Conversion(1e-3)},
    "percent": {"%": _SAME, "1": Conversion(100.0), "ratio": Conversion(100.0), "ppm": Conversion(1e-4)},
    "bytes": {
        "B": _SAME, "By": _SAME, "KiB": Conversion(2.0**10), "MiB": Conversion(2.0**20), "GiB": Conversion(2.0**30),
        "kB": Conversion(1e3), "MB": Conversion(1e6), "GB": Conversion(1e9), "words": Conversion(4.0),
    },
    "megahertz": {"MHz": _SAME, "GHz": Conversion(1e3), "kHz": Conversion(1e-3), "Hz": Conversion(1e-6)},
    "revolutions per minute": {"RPM": _SAME, "{rev}/min": _SAME, "rev/min": _SAME, "rev/s": Conversion(60.0)},
    "microsiemens per centimetre": {
        "uS/cm": _SAME, "µS/cm": _SAME, "mS/cm": Conversion(1e3), "S/m": Conversion(1e4),
    },
    "gigabits per second": {"Gb/s": _SAME, "Gbps": _SAME, "Mb/s": Conversion(1e-3), "B/s": Conversion(8e-9)},
    "seconds": {"s": _SAME, "ms": Conversion(1e-3), "us": Conversion(1e-6), "ns": Conversion(1e-9)},
    "pH": {"{pH}": _SAME},
    "dBm": {},
}  # fmt: skip


def conversion(given: str, wanted: str) -> Conversion | None:
    """From a unit as written to the table's; None when it is not known as one of that kind. Letter case is passed over
    only where it cannot matter (mW and MW are two).
    """
    if given == wanted:
        return _SAME
    known = UNITS.get(wanted, {})
    exact = known.get(given)
    if exact is not None:
        return exact
    alike = {known[name] for name in known if name.lower() == given.strip().lower()}
    if given.strip().lower() == wanted.lower():
        alike.add(_SAME)
    return alike.pop() if len(alike) == 1 else None
