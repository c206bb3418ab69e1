import pytest

from schemas.formats.units import UNITS, conversion
from schemas.tables import TABLES


@pytest.mark.parametrize(
    ("value", "given", "wanted", "expected"),
    [(32, "F", "celsius", 0.0), (212, "[degF]", "celsius", 100.0), (273.15, "K", "celsius", 0.0),
     (1, "gal/min", "liters per minute", 3.785411784), (6, "m3/h", "liters per minute", 100.0),
     (14.5037737730, "psi", "kilopascals", 100.0), (1, "bar", "kilopascals", 100.0), (1, "kWh", "joules", 3.6e6),
     (0.5, "1", "percent", 50.0), (2, "KW", "watts", 2000.0), (7, "watts", "watts", 7.0)],
)  # fmt: skip
def test_known_units(value: float, given: str, wanted: str, expected: float) -> None:
    found = conversion(given, wanted)
    assert found is not None
    assert found.of(value) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("given", "wanted"), [("mw", "watts"), ("furlong", "celsius"), ("C", "watts"), ("", "volts")])
def test_what_is_unknown_or_may_mean_two_things_is_not_guessed(given: str, wanted: str) -> None:
    assert conversion(given, wanted) is None


def test_every_kind_of_unit_is_one_that_a_table_has() -> None:
    used = {(column.metadata or {}).get("unit") for table in TABLES for column in table.schema.columns().values()}
    assert set(UNITS) <= used | {"kilowatts"}
