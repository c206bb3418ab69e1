"""Shorthands for the columns that every table is made of, so that a table reads as its list of quantities.

A column carries its unit in ``metadata["unit"]`` and one sentence in ``description``; ``hotspare schema`` and
docs/tables.md print both. A reading is nullable: null means "not reported", never zero.
"""

from collections.abc import Callable

import dataframely as dy
import polars as pl

UTC_MICROSECONDS = pl.Datetime("us", "UTC")


def sample_time(description: str = "when the sample was taken, by the clock of its source") -> dy.Datetime:
    return dy.Datetime(time_unit="us", time_zone="UTC", metadata={"unit": "UTC"}, description=description)


def instant(description: str) -> dy.Datetime:
    return dy.Datetime(
        time_unit="us", time_zone="UTC", nullable=True, metadata={"unit": "UTC"}, description=description
    )


def name(description: str) -> dy.String:
    """An identifier that must be there. The length bound keeps a hostile name out of pages and commands."""
    return dy.String(min_length=1, max_length=256, metadata={"unit": ""}, description=description)


def text(description: str, longest: int | None = None) -> dy.String:
    """longest: characters, of what people or other systems write as they like and others are to read."""
    return dy.String(nullable=True, max_length=longest, metadata={"unit": ""}, description=description)


def word(description: str, *choices: str, nullable: bool = True) -> dy.String:
    """One of a few words. A plain string with a rule: an enum type would not survive every file format."""
    check: dict[str, Callable[[pl.Expr], pl.Expr]] = {"known_word": lambda column: column.is_in(choices)}
    return dy.String(nullable=nullable, check=check, metadata={"unit": "", "choices": choices}, description=description)


def reading(unit: str, minimum: float, maximum: float, description: str) -> dy.Float64:
    return dy.Float64(nullable=True, min=minimum, max=maximum, metadata={"unit": unit}, description=description)


def counter(unit: str, description: str) -> dy.Int64:
    """Counts up from anywhere; a decrease is a reset."""
    return dy.Int64(nullable=True, min=0, metadata={"unit": unit}, description=description)


def whole(unit: str, minimum: int, maximum: int, description: str, *, nullable: bool = True) -> dy.Int64:
    return dy.Int64(nullable=nullable, min=minimum, max=maximum, metadata={"unit": unit}, description=description)


def flag(description: str) -> dy.Bool:
    return dy.Bool(nullable=True, metadata={"unit": ""}, description=description)


def names(description: str, longest: int | None = None) -> dy.List:
    """longest: characters of each."""
    inner = dy.String(nullable=False, max_length=longest)
    return dy.List(inner, nullable=True, metadata={"unit": ""}, description=description)
