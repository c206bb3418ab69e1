"""hotspare detect: learned detection on any wide table, fitted on a part of it that was normal."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from detectors.learned.change_point import stretches
from detectors.learned.normal import Learning
from detectors.learned.training import Unfit
from detectors.learned.wide_table import THRESHOLD, Judged, Shape, UnusableTable, judge, learn
from pipelines.cli.output import FOUND_SOMETHING, AsJson, Refused, console, moment, print_json, table
from pipelines.wording import some

SEPARATORS = (",", ";", "\t")
TIME_NAMES = ("time", "timestamp", "datetime", "date", "ts")
COLUMNS_NAMED = 3


def detect(
    source: Annotated[
        Path, typer.Argument(metavar="TABLE", help="A .parquet or .csv file, one row an entity and time.")
    ],
    fit_on: Annotated[
        str, typer.Option(help="FROM..TO of normal history, half open: times, or numbers like the column.")
    ],
    entity: Annotated[
        str | None, typer.Option(help="Column that says whose row it is; default entity, if any.")
    ] = None,
    time: Annotated[str | None, typer.Option(help="Column of times; default the only one there is.")] = None,
    group: Annotated[
        str | None, typer.Option(help="Column of groups of peers, who are compared with each other.")
    ] = None,
    columns: Annotated[str | None, typer.Option(help="Columns to judge, with commas; default all numbers.")] = None,
    window: Annotated[
        int, typer.Option(min=2, max=100_000, help="Rows of the sliding window.")
    ] = Learning().window_rows,
    as_json: AsJson = False,
) -> int:
    """Fit on normal history, then score every row; an alarm is a score at or above the threshold."""
    frame, shape = _shaped(source, entity=entity, time=time, group=group, columns=columns)
    begin, end = _range(fit_on, frame[shape.time].dtype)
    within = (pl.col(shape.time) >= begin) & (pl.col(shape.time) < end)
    try:
        frozen = learn(frame, shape, within, Learning(window_rows=window))
        judged = judge(frame, frozen)
    except (UnusableTable, Unfit) as reason:
        raise Refused(f"{source}: {reason}") from None
    alarms = [alarm for each in judged for alarm in _alarms(each, frozen.shape.columns)]
    if as_json:
        print_json(
            {
                "scores": [row for each in judged for row in _rows(each)],
                "threshold": THRESHOLD,
                "alarms": alarms,
                "columns": list(frozen.shape.columns),
                "left_out": list(frozen.left_out),
                "refused": dict(frozen.refused),
            }
        )
    else:
        _show(alarms, judged, frozen.left_out, frozen.refused)
    return FOUND_SOMETHING if alarms else 0


def _show(
    alarms: Sequence[dict[str, Any]], judged: Sequence[Judged], left_out: Sequence[str], refused: Mapping[str, str]
) -> None:
    heads = ("entity", "began", "first alarm", "last alarm", "score", "most of all")
    rows = [
        (
            alarm["entity"] or "",
            *(_written(alarm[key]) for key in ("began", "first", "last")),
            f"{alarm['score']:.1f}",
            ", ".join(alarm["columns"]),
        )
        for alarm in alarms
    ]
    screen = console()
    screen.print(table("Alarms", heads, rows) if rows else "no alarm")
    screen.print(f"{sum(len(each.scores) for each in judged):,} rows of {len(judged):,} entities judged")
    if left_out:
        screen.print(f"not judged, as constant in the history: {some(left_out, 8)}")
    for who, why in refused.items():
        screen.print(f"not learned from {who}: {why}")


def _written(value: Any) -> str:
    return moment(value) if isinstance(value, datetime) else str(value)


def _rows(judged: Judged) -> list[dict[str, Any]]:
    scores = judged.scores.tolist()
    return [
        {"entity": judged.entity or None, "time": at, "score": score, "alarm": score >= THRESHOLD}
        for at, score in zip(judged.times.to_list(), scores, strict=True)
    ]


def _alarms(judged: Judged, columns: Sequence[str]) -> list[dict[str, Any]]:
    found = []
    for stretch in stretches(judged.scores, THRESHOLD):
        rows = slice(stretch.first, stretch.last + 1)
        loudest = judged.away[rows].max(axis=0).argsort()[::-1][:COLUMNS_NAMED]
        found.append(
            {
                "entity": judged.entity or None, "began": judged.times[stretch.onset],
                "first": judged.times[stretch.first], "last": judged.times[stretch.last],
                "score": float(judged.scores[rows].max()),
                "columns": [columns[index] for index in loudest],
            }
        )  # fmt: skip
    return found


def _shaped(
    source: Path, *, entity: str | None, time: str | None, group: str | None, columns: str | None
) -> tuple[pl.DataFrame, Shape]:
    """The table with its time column parsed, and which column is what. Raises Refused."""
    frame = _read(source)
    if frame.is_empty():
        raise Refused(f"{source}: has no rows")
    chosen_time = time or _time_column(source, frame)
    for option, name in (("--entity", entity), ("--time", chosen_time), ("--group", group)):
        if name is not None and name not in frame.columns:
            raise Refused(f"{source}: {option} {name}: there is no such column; it has {some(frame.columns, 20)}")
    chosen_entity = entity or ("entity" if "entity" in frame.columns else None)
    if group is not None and chosen_entity is None:
        raise Refused(f"{source}: --group compares entities: say with --entity which column names them")
    frame = frame.with_columns(_times(source, frame[chosen_time]))
    taken = {chosen_time, chosen_entity, group}
    numbers = [name for name in frame.columns if name not in taken]
    chosen = [name.strip() for name in columns.split(",")] if columns is not None else numbers
    return frame, Shape(time=chosen_time, entity=chosen_entity, group=group, columns=tuple(chosen))


def _read(source: Path) -> pl.DataFrame:
    if not source.is_file():
        raise Refused(f"{source}: no such file")
    try:
        if source.suffix == ".parquet":
            return pl.read_parquet(source)
        if source.suffix != ".csv":
            raise Refused(f"{source}: write a .parquet or .csv file")
        with source.open(encoding="utf-8", errors="replace") as lines:
            head = lines.readline()
        separator = max(SEPARATORS, key=head.count)
        return pl.read_csv(source, separator=separator, try_parse_dates=True, infer_schema_length=None)
    except (pl.exceptions.PolarsError, UnicodeError) as error:
        raise Refused(f"{source}: cannot be read: {str(error).splitlines()[0]}") from None


def _time_column(source: Path, frame: pl.DataFrame) -> str:
    temporal = [name for name in frame.columns if isinstance(frame[name].dtype, pl.Datetime | pl.Date)]
    named = [name for name in frame.columns if name.lower() in TIME_NAMES]
    for found in (named, temporal):
        if len(found) == 1:
            return found[0]
    raise Refused(f"{source}: say with --time which column is the time; it has {some(frame.columns, 20)}")


def _times(source: Path, times: pl.Series) -> pl.Series:
    """As UTC microseconds, or as the numbers that they are. Raises Refused."""
    if times.dtype.is_numeric():
        return times
    if times.dtype == pl.String:
        try:
            times = times.str.to_datetime(time_unit="us", time_zone="UTC")
        except pl.exceptions.PolarsError:
            raise Refused(f"{source}: --time {times.name}: such as {times[0]!r} is no time that can be read") from None
    if not isinstance(times.dtype, pl.Datetime | pl.Date):
        raise Refused(f"{source}: --time {times.name}: is {times.dtype}, not a time")
    if isinstance(times.dtype, pl.Datetime) and times.dtype.time_zone is not None:
        return times.dt.convert_time_zone("UTC").dt.cast_time_unit("us")
    return times.cast(pl.Datetime("us")).dt.replace_time_zone("UTC")


def _range(spec: str, kind: pl.DataType) -> tuple[Any, Any]:
    """FROM and TO as the time column has them. Raises Refused."""
    begin, marked, end = spec.partition("..")
    if not marked:
        raise Refused(f"--fit-on {spec}: write FROM..TO, such as 2026-03-01T08:00:00Z..2026-03-01T09:00:00Z")
    first: Any = _instant(begin, kind, spec)
    last: Any = _instant(end, kind, spec)
    if not first < last:
        raise Refused(f"--fit-on {spec}: ends before it begins")
    return first, last


def _instant(text: str, kind: pl.DataType, spec: str) -> datetime | float:
    try:
        if kind.is_numeric():
            return float(text)
        read = datetime.fromisoformat(text.strip())
    except ValueError:
        wanted = "a number, as the time column has" if kind.is_numeric() else "a time like 2026-03-01T08:00:00Z"
        raise Refused(f"--fit-on {spec}: {text!r} is not {wanted}") from None
    return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
