"""Levels in two grades (1 ticket, 2 page), and the folding of parts (lanes, fibres) into the whole they belong to."""

import polars as pl

from detectors.levels import LEVEL_COLUMNS, levels

LEVEL_NAMES = tuple(name for name in LEVEL_COLUMNS if name != "entity")
# Per entity the state of `levels` twice: for "at least a ticket" and for "a page".
GRADE_COLUMNS = pl.Schema(
    {
        "entity": pl.String(),
        **{f"{grade}_{name}": LEVEL_COLUMNS[name] for grade in ("ticket", "page") for name in LEVEL_NAMES},
    }
)


def graded_levels(
    samples: pl.DataFrame, state: pl.DataFrame, *, for_seconds: float = 0.0, clear_seconds: float = 0.0
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Statements of change of a level with two grades.

    samples: entity, time, grade (0 good, 1 ticket, 2 page; null says nothing) and evidence; sorted by time within
    each entity. state: GRADE_COLUMNS. Returns the rows at which the grade that holds changed, with grade (what now
    holds), was (what held before), active, severity and first_bad_at (of the level, in whatever grade); and the state.
    Who was never bad has no state, so that hundreds of thousands of good lanes cost nothing.
    """
    known = state["ticket_bad"].is_not_null()
    state = state.filter(known) if known.any() else state.clear()
    samples = _worth_telling(samples, state)
    if samples.is_empty():
        return _nothing(samples), state.sort("entity")
    ticket, ticket_state = _at_least(1, samples, state, for_seconds=for_seconds, clear_seconds=clear_seconds)
    page, page_state = _at_least(2, samples, state, for_seconds=for_seconds, clear_seconds=clear_seconds)
    after = ticket_state.join(page_state, on="entity", how="full", coalesce=True).select(GRADE_COLUMNS.names())
    held = state.select(
        "entity",
        held=pl.col("ticket_active").cast(pl.Int64()) + pl.col("page_active").cast(pl.Int64()),
        held_since="ticket_first_bad_at",
    )
    # At one instant the end of everything speaks first, then whatever the page grade says, then the begin of a ticket.
    urgency = pl.when(pl.col("least") == 2).then(1).when("active").then(2).otherwise(0)
    changes = (
        pl.concat([ticket, page])
        .join(held, on="entity", how="left", maintain_order="left")
        .sort("entity", "time", "least", maintain_order=True)
        .with_columns(began=pl.when((pl.col("least") == 1) & pl.col("active")).then("first_bad_at"))
        .with_columns(
            first_bad_at=pl.coalesce(pl.col("began").forward_fill().over("entity"), "held_since", "first_bad_at"),
            urgency=urgency,
            grade=pl.col("least") - 1 + pl.col("active").cast(pl.Int64()),
        )
        .sort("entity", "time", "urgency", maintain_order=True)
        .unique(["entity", "time"], keep="first", maintain_order=True)
        .with_columns(was=pl.col("grade").shift(1).over("entity").fill_null(pl.col("held")).fill_null(0))
        .with_columns(active=pl.col("grade") > 0, severity=severity_of(pl.col("grade"), pl.col("was")))
        .drop("held", "held_since", "began", "urgency", "least")
        .sort("time", "entity")
    )
    return changes, after.cast(GRADE_COLUMNS).sort("entity")


def _nothing(samples: pl.DataFrame) -> pl.DataFrame:
    """No change, with the columns of one."""
    columns = {"active": pl.Boolean(), "first_bad_at": LEVEL_COLUMNS["first_bad_at"], "was": pl.Int64()}
    return samples.with_columns(
        pl.lit(None, dtype).alias(name) for name, dtype in {**columns, "severity": pl.String()}.items()
    )


def _worth_telling(samples: pl.DataFrame, state: pl.DataFrame) -> pl.DataFrame:
    """Samples of entities with a state, and of the others from their first bad one on."""
    is_bad = samples["grade"] > 0
    if state.is_empty() and not is_bad.any():
        return samples.clear()
    bad = samples["entity"].filter(is_bad)
    known = pl.col("entity").is_in(state["entity"].implode())
    some = samples.filter(known | pl.col("entity").is_in(bad.unique().implode()))
    seen_bad = (pl.col("grade") > 0).fill_null(value=False).cum_max().over("entity")
    return some.filter(known | seen_bad)


def severity_of(grade: pl.Expr, was: pl.Expr) -> pl.Expr:
    """The severity of a statement; an end keeps that of the level which it ends."""
    spoken_of = pl.when(grade > 0).then(grade).otherwise(was)
    return pl.when(spoken_of == 2).then(pl.lit("page")).otherwise(pl.lit("ticket"))


def fold(changes: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    """Changes of parts as changes of their wholes: a whole is as bad as its worst part.

    changes: what graded_levels says of the parts, with a column whole. before: whole and GRADE_COLUMNS of the parts
    as they were before the batch. Returns the rows of the parts that changed their whole, with grade, was, active,
    severity and first_bad_at of the whole, entity being the whole and part the part that speaks for it.
    """
    held = (
        before.filter("ticket_active")
        .group_by("whole")
        .agg(
            tickets_before=pl.col("ticket_active").fill_null(value=False).sum().cast(pl.Int64()),
            pages_before=pl.col("page_active").fill_null(value=False).sum().cast(pl.Int64()),
            since_before=pl.col("ticket_first_bad_at").filter(pl.col("ticket_active")).min(),
        )
    )
    speaking = changes.sort("whole", "time", "grade", "entity", descending=[False, False, True, False])
    moved = (
        speaking.group_by("whole", "time", maintain_order=True)
        .agg(
            pl.all().exclude("whole", "time", "first_bad_at").first(),
            first_bad_at=pl.col("first_bad_at").min(),
            tickets=((pl.col("grade") >= 1).cast(pl.Int64()) - (pl.col("was") >= 1).cast(pl.Int64())).sum(),
            pages=((pl.col("grade") >= 2).cast(pl.Int64()) - (pl.col("was") >= 2).cast(pl.Int64())).sum(),
        )
        .join(held, on="whole", how="left", maintain_order="left")
        .with_columns(
            tickets=pl.col("tickets").cum_sum().over("whole") + pl.col("tickets_before").fill_null(0),
            pages=pl.col("pages").cum_sum().over("whole") + pl.col("pages_before").fill_null(0),
        )
    )
    grade = (pl.col("tickets") > 0).cast(pl.Int64()) + (pl.col("pages") > 0).cast(pl.Int64())
    grade_before = (pl.col("tickets_before") > 0).cast(pl.Int64()) + (pl.col("pages_before") > 0).cast(pl.Int64())
    whole = moved.with_columns(grade=grade).with_columns(
        was=pl.col("grade").shift(1).over("whole").fill_null(grade_before).fill_null(0)
    )
    began = pl.when((pl.col("grade") > 0) & (pl.col("was") == 0)).then("first_bad_at")
    return (
        whole.with_columns(
            active=pl.col("grade") > 0,
            severity=severity_of(pl.col("grade"), pl.col("was")),
            first_bad_at=pl.coalesce(began.forward_fill().over("whole"), "since_before", "first_bad_at"),
        )
        .filter(pl.col("grade") != pl.col("was"))
        .rename({"entity": "part", "whole": "entity"})
        .drop("tickets", "pages", "tickets_before", "pages_before", "since_before")
        .sort("time", "entity")
    )


def _at_least(
    least: int, samples: pl.DataFrame, state: pl.DataFrame, *, for_seconds: float, clear_seconds: float
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Level changes of "grade at least `least`", and the state of that level under the columns of that name."""
    name = "ticket" if least == 1 else "page"
    before = state.select("entity", *(pl.col(f"{name}_{column}").alias(column) for column in LEVEL_NAMES))
    changes, after = levels(
        samples.with_columns(bad=pl.col("grade") >= least),
        before.filter(pl.col("bad").is_not_null()),
        for_seconds=for_seconds,
        clear_seconds=clear_seconds,
    )
    said = changes.drop("bad").with_columns(least=pl.lit(least, pl.Int64()))
    return said, after.rename({column: f"{name}_{column}" for column in LEVEL_NAMES})
