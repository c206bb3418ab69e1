"""What can be taken away from a detector: each of its thresholds in turn, and what it remembers.

A threshold is changed by a factor of four (6 dB for decibels), a small count by one. That is coarse: a test need not
sit on the threshold to see it, but a test that never comes near one does not.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import timedelta
from functools import singledispatch

import polars as pl

from tests.ablation.parts import ANY, CONSTANTS, STATE_PARTS

FACTOR = 4
DECIBELS = 6.0  # the same in power
SMALL_COUNT = 10
# It stands for "two samples in a row", whatever their interval, so that a quarter of it is the same rule.
TWO_SAMPLES = ("for_seconds", 1.0)
FIVE_MINUTES_SECONDS = 300.0
EVERYTHING = ("", ANY)


@dataclass(frozen=True, kw_only=True)
class Ablation:
    """settings: new defaults by name. constant: a module's name below detectors/, and its own name there.
    forgets: a column of the state and its value in the rows that no step is given; EVERYTHING for all of them.
    """

    what: str
    settings: Mapping[str, object] = field(default_factory=dict)
    constant: tuple[str, object] | None = None
    forgets: tuple[str, object] | None = None


def ablations_of(detector) -> list[Ablation]:
    found = [Ablation(what="state", forgets=EVERYTHING)]
    column, values = STATE_PARTS.get(detector.name, ("", ()))
    found += [Ablation(what=f"state, {column} {value}", forgets=(column, value)) for value in values]
    for name in (each.name for each in fields(detector)):
        value = getattr(detector, name)
        others = changed(value)
        if (name, value) == TWO_SAMPLES:
            others = ((f" {value} -> {other}", other) for other in (0.0, FIVE_MINUTES_SECONDS))
        found += [Ablation(what=f"{name}{how}", settings={name: other}) for how, other in others]
    for path in CONSTANTS.get(detector.name, ()):
        module, _, name = path.rpartition(".")
        held = getattr(sys.modules[f"detectors.{module}"], name)
        found += [Ablation(what=f"{name}{how}", constant=(path, other)) for how, other in changed(held)]
    return found


@singledispatch
def changed(value) -> Iterator[tuple[str, object]]:
    """Values to put in its place, each with how it differs."""
    if not is_dataclass(value):
        raise TypeError(f"no way to change {value!r} is known: say one in tests/ablation/ablations.py")
    for each in fields(value):
        for how, other in changed(getattr(value, each.name)):
            yield f".{each.name}{how}", replace(value, **{each.name: other})


@changed.register
def _(value: str):
    """Words are no thresholds."""
    return iter(())


@changed.register
def _(value: bool):  # noqa: FBT001  # singledispatch goes by the type of its first argument
    return _each(value, not value)


@changed.register
def _(value: int):
    if value <= SMALL_COUNT:
        return _each(value, value - 1, value + 1)
    return _each(value, value // FACTOR, value * FACTOR)


@changed.register
def _(value: float):
    if value < 0:
        return _each(value, value - DECIBELS, value + DECIBELS)
    return _each(value, value / FACTOR, value * FACTOR)


@changed.register
def _(value: timedelta):
    return _each(value, value / FACTOR, value * FACTOR)


@changed.register
def _(value: tuple):
    for number, each in enumerate(value):
        before, after = value[:number], value[number + 1 :]
        yield f" without {getattr(each, 'name', each)}", (*before, *after)
        if is_dataclass(each):
            yield from ((f"[{number}]{how}", (*before, other, *after)) for how, other in changed(each))


def _each(value, *others) -> Iterator[tuple[str, object]]:
    return ((f" {value} -> {other}", other) for other in others if other != value)


def ablate(detector, ablation: Ablation) -> None:
    """In this process, for good: the detector of the catalogue, and every one that is made without saying otherwise."""
    kind = type(detector)
    for name, value in ablation.settings.items():
        setattr(kind, name, value)
        kind.__init__.__kwdefaults__[name] = value
        object.__setattr__(detector, name, value)
    if ablation.constant:
        path, value = ablation.constant
        name = path.rpartition(".")[2]
        held = getattr(sys.modules[f"detectors.{path.rpartition('.')[0]}"], name)
        for module in [module for known, module in sys.modules.items() if known.startswith("detectors.")]:
            if getattr(module, name, None) is held:  # where it stands, and where it was imported to
                setattr(module, name, value)
    if ablation.forgets:
        whole, kept = kind.detect, _kept(*ablation.forgets)
        kind.detect = lambda self, tables, state, context: whole(self, tables, state.filter(kept), context)


def _kept(column, value) -> pl.Expr:
    if (column, value) == EVERYTHING:
        return pl.lit(value=False)
    return pl.col(column).is_null() if value == ANY else pl.col(column).ne_missing(value)
