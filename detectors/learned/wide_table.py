"""Any wide table (entity, time, columns) through learned detection: what is learned of it, frozen, and its scores.

Without a group every entity has a model of its own. With one, an entity is judged by its distance from the median of
its group at the same instant, less the distance that is usual for it, and one model serves all: what happens to the
whole group (heat of the day, a new job) is then nobody's fault, and a fault that strikes all of them is not seen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from detectors.learned.normal import Learning, Normal, fit, thawed
from detectors.learned.training import Unfit
from detectors.learned.windows import Values

PEERS_MINIMUM = 3
REFUSED_SHARE_MAXIMUM = 1 / 3
THRESHOLD = 1.0
SHARED = ""  # the model of all entities of a peer comparison


class UnusableTable(ValueError):
    """A table that cannot be judged: one line with what is wrong, where, and what to do."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Which column is what. entity None: the whole table is one entity. columns: the numbers that are judged."""

    time: str
    columns: tuple[str, ...]
    entity: str | None = None
    group: str | None = None

    @property
    def who(self) -> pl.Expr:
        return pl.lit("") if self.entity is None else pl.col(self.entity).cast(pl.String)


@dataclass(frozen=True, kw_only=True)
class Frozen:
    """models: by entity, or one that is SHARED. usual: by entity the distance from its peers that is usual (p,).
    left_out: columns that did not change in the history. refused: why an entity has no model, or was not learned from.
    """

    shape: Shape
    models: Mapping[str, Normal]
    usual: Mapping[str, Values] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "shape": {**vars(self.shape), "columns": list(self.shape.columns)}, "threshold": THRESHOLD,
            "models": {entity: model.document() for entity, model in self.models.items()},
            "usual": {entity: usual.tolist() for entity, usual in self.usual.items()},
            "left_out": list(self.left_out), "refused": dict(self.refused),
        }  # fmt: skip


def frozen_from(document: Mapping[str, Any]) -> Frozen:
    """The models of a document. Raises KeyError for one that lacks something."""
    shape = document["shape"]
    return Frozen(
        shape=Shape(**{**shape, "columns": tuple(shape["columns"])}),
        models={entity: thawed(model) for entity, model in document["models"].items()},
        usual={entity: np.array(usual, dtype=np.float64) for entity, usual in document["usual"].items()},
        left_out=tuple(document["left_out"]),
        refused=dict(document["refused"]),
    )


def checked(frame: pl.DataFrame, shape: Shape) -> pl.DataFrame:
    """The frame with the columns of the shape, entity and group as text. Raises UnusableTable."""
    named = [shape.time, *(name for name in (shape.entity, shape.group) if name), *shape.columns]
    for name in named:
        if name not in frame.columns:
            raise UnusableTable(f"there is no column {name!r}; the table has {', '.join(frame.columns)}")
    if not shape.columns:
        raise UnusableTable("there is no column of numbers to judge")
    for name in shape.columns:
        if not (frame[name].dtype.is_numeric() or frame[name].dtype == pl.Boolean):
            raise UnusableTable(
                f"column {name!r} is {frame[name].dtype}, not a number: name it as --entity or --group, or choose "
                "the columns to judge with --columns"
            )
    numbers = [pl.col(name).cast(pl.Float64) for name in shape.columns]
    table = frame.select(pl.col(shape.time), shape.who.alias("_who"), *_grouped(shape), *numbers)
    for name in ("_who", shape.time, *(["_group"] if shape.group else [])):
        if table[name].null_count():
            called = {"_who": shape.entity, "_group": shape.group}.get(name, name)
            raise UnusableTable(f"column {called!r} has {table[name].null_count()} empty cells")
    for name in shape.columns:
        broken = int((~table[name].is_finite().fill_null(value=False)).sum())
        if broken:
            raise UnusableTable(
                f"column {name!r} has {broken} cells without a finite number: fill them or leave their rows out"
            )
    _in_order(table, shape)
    return table


def _grouped(shape: Shape) -> list[pl.Expr]:
    return [] if shape.group is None else [pl.col(shape.group).cast(pl.String).alias("_group")]


def _in_order(table: pl.DataFrame, shape: Shape) -> None:
    """Raises UnusableTable where an entity's time stands still or goes back."""
    steps = table.with_columns(_before=pl.col(shape.time).shift(1).over("_who"))
    for wrong, what in (("==", "comes twice"), ("<", "comes after a later one")):
        earlier = pl.col(shape.time) == pl.col("_before") if wrong == "==" else pl.col(shape.time) < pl.col("_before")
        bad = steps.filter(earlier)
        if not bad.is_empty():
            first = bad.row(0, named=True)
            at, whose = str(first[shape.time]), "" if shape.entity is None else f" of {first['_who']}"
            more = f" (and {bad.height - 1} more)" if bad.height > 1 else ""
            raise UnusableTable(
                f"time {at}{whose} {what}{more}: "
                + ("one row an entity and time is wanted" if wrong == "==" else f"sort the table by {shape.time}")
                + ("; is there an --entity column?" if shape.entity is None else "")
            )


def learn(frame: pl.DataFrame, shape: Shape, within: pl.Expr, learning: Learning) -> Frozen:
    """Models of what is normal, from the rows where `within` holds. Raises UnusableTable and Unfit."""
    table = checked(frame, shape)
    history = table.filter(within)
    if history.is_empty():
        first, last = str(table[shape.time].min()), str(table[shape.time].max())
        raise Unfit(f"no row lies in the history; the table has {first} to {last}")
    moving = [name for name in shape.columns if history[name].n_unique() > 1]
    if not moving:
        raise Unfit(f"all columns are constant in the history: {', '.join(shape.columns)}")
    left_out = tuple(name for name in shape.columns if name not in moving)
    shape = Shape(time=shape.time, entity=shape.entity, group=shape.group, columns=tuple(moving))
    if shape.group is None:
        return _each_alone(history, shape, left_out, learning)
    return _among_peers(history, shape, left_out, learning)


def _each_alone(history: pl.DataFrame, shape: Shape, left_out: tuple[str, ...], learning: Learning) -> Frozen:
    models: dict[str, Normal] = {}
    refused: dict[str, str] = {}
    for who, rows in _by_entity(history):
        try:
            models[who] = fit([rows.select(shape.columns).to_numpy()], shape.columns, learning)
        except Unfit as reason:
            refused[who] = str(reason)
    if not models:
        who, why = next(iter(refused.items()))
        raise Unfit(f"{who}: {why}" if who else why)
    return Frozen(shape=shape, models=models, left_out=left_out, refused=refused)


def _among_peers(history: pl.DataFrame, shape: Shape, left_out: tuple[str, ...], learning: Learning) -> Frozen:
    usual: dict[str, Values] = {}
    histories: list[Values] = []
    refused: dict[str, str] = {}
    for who, rows in _by_entity(_away_from_peers(history, shape)):
        values = rows.select(shape.columns).to_numpy()
        usual[who] = np.median(values, axis=0)
        own = values - usual[who]
        try:
            fit([own], shape.columns, learning)  # an entity that cannot be learned alone must not teach the others
            histories.append(own)
        except Unfit as reason:
            refused[who] = str(reason)
    if len(refused) > REFUSED_SHARE_MAXIMUM * len(usual):
        who, why = next(iter(refused.items()))
        raise Unfit(f"{len(refused)} of {len(usual)} entities have no usable history; {who}: {why}")
    shared = fit(histories, shape.columns, learning)
    # the usual distance of one whose history shows a fault is not known
    known = {who: distance for who, distance in usual.items() if who not in refused}
    return Frozen(shape=shape, models={SHARED: shared}, usual=known, left_out=left_out, refused=refused)


def _away_from_peers(table: pl.DataFrame, shape: Shape) -> pl.DataFrame:
    """Each column as its distance from the group's median at the same time. Raises UnusableTable for too few peers."""
    place = ["_group", shape.time]
    few = table.group_by(place).len().filter(pl.col("len") < PEERS_MINIMUM)
    if not few.is_empty():
        group, time, members = few.sort(place).row(0)
        raise UnusableTable(
            f"group {group} has {members} members at {time}: a comparison needs {PEERS_MINIMUM} at the same times"
        )
    return table.with_columns(pl.col(name) - pl.col(name).median().over(place) for name in shape.columns)


def _by_entity(table: pl.DataFrame) -> Sequence[tuple[str, pl.DataFrame]]:
    return [(str(who), rows) for (who,), rows in table.partition_by("_who", as_dict=True, maintain_order=True).items()]


@dataclass(frozen=True, eq=False)
class Judged:
    """One entity: its times, its scores (n,), and how far each of its columns was away (n, p)."""

    entity: str
    times: pl.Series
    scores: Values
    away: Values


def judge(frame: pl.DataFrame, frozen: Frozen) -> list[Judged]:
    """Scores of every row whose entity has a model, entity by entity. Raises UnusableTable."""
    shape = frozen.shape
    table = checked(frame, shape)
    if shape.group is not None:
        table = _away_from_peers(table, shape)
    judged = []
    for who, rows in _by_entity(table):
        model = frozen.models.get(SHARED if shape.group is not None else who)
        if model is None:
            continue
        values = rows.select(shape.columns).to_numpy() - frozen.usual.get(who, np.zeros(len(shape.columns)))
        judged.append(Judged(who, rows[shape.time], model.scores(values), np.abs(model.away(values))))
    return judged
