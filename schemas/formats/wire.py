"""Our own wire format: a JSON object whose keys are a table's columns, and the same table as Arrow IPC.

A value is a scalar or a list; lists have one length, scalars broadcast: one GPU, one node or one superblock per
message are the same format. `time` is RFC 3339 or integer microseconds since the epoch. In a column that holds lists
itself (job_event.members, otdr_trace.samples_db) a list of scalars is one row's value, a list of lists one per row.

Decoding is by batch and by column. Messages that are written alike are taken apart together (wire_layout); others go
through a decoder made for the table, which checks types in C, and those of one shape are joined column by column, never
row by row. What that decoder refuses (an unknown column, a word in a column of numbers) is decoded again without types,
and then only the offending rows are lost.

Messages are taken apart a few at a time: thousands of them would keep so many lists alive that Python's garbage
collector takes longer to look at them than everything else together (measured: up to four fifths of the time).
"""

from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from types import NoneType
from typing import Any

import msgspec
import polars as pl

from schemas.columns import UTC_MICROSECONDS
from schemas.formats import payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable, rejects_frame
from schemas.formats.wire_columns import Rejected, column, conform, inner_of
from schemas.formats.wire_layout import ROWS_PER_MESSAGE_MAXIMUM, lay_out
from schemas.tables import TABLE_BY_NAME, Table

NAME = "wire JSON"
VERSIONS = "our own: a JSON object with the table's columns, one row or lists of one length, one message a line"
LEAVES = "columns that no table knows, which are counted"
MESSAGE_BYTES_MAXIMUM = 16 * 1024 * 1024
UNKNOWN_COLUMNS_MAXIMUM = 64
MESSAGES_TOGETHER = 128
_MESSAGE = "__message"


@dataclass
class _Gathered:
    """Messages of one shape under way: those not yet taken apart, and the columns of those that are.

    names: of the values. shape: which of them are lists. lengths: rows of each message in `columns`.
    """

    names: tuple[str, ...]
    shape: tuple[bool, ...]
    waiting: list[tuple[int, tuple[Any, ...]]] = field(default_factory=list)
    indices: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    columns: list[list[Any]] = field(default_factory=list)

    def add(self, index: int, values: tuple[Any, ...], messages: list[bytes], rejects: list[Rejected]) -> None:
        self.waiting.append((index, values))
        if len(self.waiting) >= MESSAGES_TOGETHER:
            self.settle(messages, rejects)

    def settle(self, messages: list[bytes], rejects: list[Rejected]) -> None:
        """Chain the lists of the waiting messages; a message whose lists differ in length is a reject."""
        waiting = _of_one_length(self, messages, rejects) if self.waiting else []
        self.waiting = []
        if not waiting:
            return
        self.columns = self.columns or [[] for _ in self.names]
        by_column = list(zip(*(values for _, values in waiting), strict=True))
        for gathered, values, is_list in zip(self.columns, by_column, self.shape, strict=True):
            gathered.extend(chain.from_iterable(values) if is_list else values)
        listed = next((values for values, is_list in zip(by_column, self.shape, strict=True) if is_list), None)
        self.lengths.extend([1] * len(waiting) if listed is None else map(len, listed))
        self.indices.extend(index for index, _ in waiting)


def decode_json(
    messages: list[bytes], table: Table, bytes_maximum: int = MESSAGE_BYTES_MAXIMUM
) -> tuple[pl.DataFrame, list[Rejected]]:
    """Rows of the table (all its columns, typed, in the order of the messages) and (index of message, Reject) for what
    is no such row. A bad message costs only itself, a bad value only its row. Columns that the table does not know
    come along as nulls, for the door to count.
    """
    rejects: list[Rejected] = []
    shapes: dict[tuple[bool, ...], _Gathered] = {}
    names = tuple(table.columns)
    again: list[int] = []
    decoder = _decoder(table.name)
    listed = [at for at, dtype in enumerate(table.columns.values()) if isinstance(dtype, pl.List)]
    large = {at for at, length in enumerate(map(len, messages)) if length > bytes_maximum}
    laid, left = lay_out(messages, [at for at in range(len(messages)) if at not in large], table)
    for index in sorted([*left, *large]):
        message = messages[index]
        if len(message) > bytes_maximum:
            reason = f"message of {len(message)} bytes is over the limit of {bytes_maximum}"
            rejects.append((index, Reject(rule="message|size", reason=reason, raw=message)))
            continue
        try:
            values = msgspec.structs.astuple(decoder.decode(message))
        except (msgspec.MsgspecError, RecursionError):
            again.append(index)
            continue
        if values.count(None) == len(values):
            reason = "the message says nothing: no column of the table, or only nulls"
            rejects.append((index, Reject(rule="message|object", reason=reason, raw=message)))
            continue
        shape = _shape(values, listed)
        if shape is None:
            again.append(index)
            continue
        gathered = shapes.get(shape)
        if gathered is None:
            gathered = shapes[shape] = _Gathered(names, shape)
        gathered.add(index, values, messages, rejects)
    alike = [_Gathered(one.layout.names, one.layout.shape, [], one.indices, one.lengths, one.columns) for one in laid]
    frames = [_joined(one, table, messages, rejects, trusted=True) for one in (*alike, *shapes.values())]
    frames += _untyped(again, table, messages, rejects)
    if not frames:
        return pl.DataFrame(schema=table.columns), sorted(rejects, key=_index)
    frame = pl.concat(frames, how="diagonal")
    if len(frames) > 1:
        frame = frame.sort(_MESSAGE, maintain_order=True)
    return frame.drop(_MESSAGE), sorted(rejects, key=_index)


def encode_json(frame: pl.DataFrame, table: Table, group_by: tuple[str, ...] = ("time", "node")) -> list[bytes]:
    """One message per distinct value of group_by, in order of first appearance: those columns are scalars, the others
    lists. An empty group_by gives one message per row. Columns that are null throughout are left out; times are
    integer microseconds. NaN and infinities, which JSON cannot say, become null.
    """
    known = frame.select(name for name in table.columns if name in frame.columns)
    known = known.select(series.name for series in known if series.null_count() < len(series))
    known = known.with_columns(
        pl.col(UTC_MICROSECONDS).cast(pl.Int64),
        pl.when(pl.col(pl.Float64).is_finite()).then(pl.col(pl.Float64)),
    ) if known.width else known  # fmt: skip
    keys = [name for name in group_by if name in known.columns]
    if keys:
        known = known.group_by(keys, maintain_order=True).agg(pl.all())
    if known.is_empty():
        return []
    return [text.encode() for text in known.select(pl.struct(pl.all()).struct.json_encode().alias("json"))["json"]]


def decode(data: bytes, surroundings: Surroundings, *, table: Table) -> Decoded:
    """A file of messages, one a line (or one JSON object over many lines)."""
    payload.bounded(data, surroundings, NAME)
    lines = data.splitlines()
    if len(lines) > 1 and not lines[0].rstrip().endswith(b"}"):
        lines = [data]
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    frame, rejects = decode_json([line for _, line in numbered], table, surroundings.bytes_maximum)
    if frame.is_empty() and rejects and all(reject.rule == "message|json" for _, reject in rejects):
        raise Unreadable(f"{NAME}: line {numbered[0][0]}: {rejects[0][1].reason}")
    placed = [
        Reject(rule=reject.rule, reason=f"line {numbered[index][0]}: {reject.reason}", place=numbered[index][0],
               raw=reject.raw)
        for index, reject in rejects
    ]  # fmt: skip
    return Decoded(tables={table.name: frame} if frame.height else {}, rejects=rejects_frame(placed, table.name))


@cache
def _decoder(table_name: str) -> msgspec.json.Decoder[Any]:
    """A decoder for messages of the table. What a list means in a column of lists its types leave open (_of_lists)."""
    fields: list[tuple[str, Any, Any]] = []
    for name, dtype in TABLE_BY_NAME[table_name].columns.items():
        scalar: Any = _scalar(inner_of(dtype) if isinstance(dtype, pl.List) else dtype)
        row: Any = list[scalar] if isinstance(dtype, pl.List) else scalar
        fields.append((name, scalar | list[row | scalar | None] | None, None))
    return msgspec.json.Decoder(msgspec.defstruct(table_name, fields, forbid_unknown_fields=True, gc=False))


def _scalar(dtype: pl.DataType) -> Any:
    if dtype == UTC_MICROSECONDS:
        return int | str
    return {pl.Float64(): float, pl.Int64(): int, pl.String(): str, pl.Boolean(): bool}[dtype]


def _shape(values: tuple[Any, ...], listed: list[int]) -> tuple[bool, ...] | None:
    """Which values are lists with an element for each row. In a column that holds lists itself (`listed`) a list of
    scalars is one row's value. None where a value there is neither, so that it must be looked at row by row.
    """
    shape = [type(value) is list for value in values]
    for at in listed:
        kinds = set(map(type, values[at])) if shape[at] else {type(values[at])}
        if shape[at] and not kinds & {list, NoneType}:
            shape[at] = False
        elif not kinds <= {list, NoneType}:
            return None
    return tuple(shape)


def _index(rejected: Rejected) -> int:
    return rejected[0]


def _joined(
    gathered: _Gathered, table: Table, messages: list[bytes], rejects: list[Rejected], *, trusted: bool
) -> pl.DataFrame:
    """Messages of one shape as one frame: list columns are chained, scalars repeated as often as the lists are long."""
    gathered.settle(messages, rejects)
    if not gathered.indices:
        return pl.DataFrame(schema=table.columns | {_MESSAGE: pl.UInt32()})
    rows = pl.Series(range(len(gathered.indices)), dtype=pl.UInt32)
    broadcast = any(gathered.shape)
    repeat = rows.repeat_by(pl.Series(gathered.lengths)).explode(empty_as_null=False) if broadcast else rows
    types = table.columns
    series = []
    for name, values, is_list in zip(gathered.names, gathered.columns, gathered.shape, strict=True):
        dtype = types.get(name)
        if dtype is None:
            series.append(pl.Series(name, [None] * len(repeat), dtype=pl.Null))
        elif is_list:
            series.append(column(name, values, dtype, trusted=trusted))
        else:
            short = column(name, values, dtype, trusted=trusted)
            series.append(short.gather(repeat) if broadcast else short)
    message = pl.Series(_MESSAGE, gathered.indices, dtype=pl.UInt32).gather(repeat)
    return conform(pl.DataFrame([*series, message]), table, _MESSAGE, messages, rejects)


def _of_one_length(
    gathered: _Gathered, messages: list[bytes], rejects: list[Rejected]
) -> list[tuple[int, tuple[Any, ...]]]:
    """The waiting messages whose lists are of one, bearable, length. It looks at columns, and at rows to name one."""
    by_column = zip(*(values for _, values in gathered.waiting), strict=True)
    lengths = [list(map(len, values)) for values, is_list in zip(by_column, gathered.shape, strict=True) if is_list]
    if not lengths or (all(other == lengths[0] for other in lengths) and max(lengths[0]) <= ROWS_PER_MESSAGE_MAXIMUM):
        return gathered.waiting
    listed = [name for name, is_list in zip(gathered.names, gathered.shape, strict=True) if is_list]
    good = []
    for (index, values), counts in zip(gathered.waiting, zip(*lengths, strict=True), strict=True):
        if min(counts) == max(counts) <= ROWS_PER_MESSAGE_MAXIMUM:
            good.append((index, values))
            continue
        longest, shortest = counts.index(max(counts)), counts.index(min(counts))
        reason = (
            f"lists must have one length of at most {ROWS_PER_MESSAGE_MAXIMUM}: "
            f"{listed[longest]} has {counts[longest]}, {listed[shortest]} {counts[shortest]}"
        )
        rejects.append((index, Reject(rule="message|lengths", reason=reason, raw=messages[index])))
    return good


def _untyped(again: list[int], table: Table, messages: list[bytes], rejects: list[Rejected]) -> list[pl.DataFrame]:
    """Messages that the typed decoder refused or that it cannot describe, grouped by keys and shape."""
    types = table.columns
    groups: dict[tuple[tuple[str, ...], tuple[bool, ...]], _Gathered] = {}
    unknown: set[str] = set()
    for index in again:
        message = messages[index]
        try:
            value = msgspec.json.decode(message)
        except (msgspec.MsgspecError, RecursionError) as error:
            reason = f"no JSON: {error}" if not isinstance(error, RecursionError) else "no JSON: nested too deeply"
            rejects.append((index, Reject(rule="message|json", reason=reason, raw=message)))
            continue
        if not isinstance(value, dict) or not value:
            reason = f"a message is a JSON object with columns, not {type(value).__name__}"
            rejects.append((index, Reject(rule="message|object", reason=reason, raw=message)))
            continue
        for name in [name for name in value if name not in types]:
            if name != _MESSAGE and (name in unknown or len(unknown) < UNKNOWN_COLUMNS_MAXIMUM):
                unknown.add(name)
                value[name] = None
            else:
                del value[name]
        shape = tuple(
            [isinstance(item, list) and not _is_one_value(item, types.get(name)) for name, item in value.items()]
        )
        if value:
            gathered = groups.setdefault((tuple(value), shape), _Gathered(tuple(value), shape))
            gathered.add(index, tuple(value.values()), messages, rejects)
    return [_joined(gathered, table, messages, rejects, trusted=False) for gathered in groups.values()]


def _is_one_value(item: list[Any], dtype: pl.DataType | None) -> bool:
    """Whether a list is one row's value: in a column of lists, unless it holds lists or nothing but nulls."""
    if not isinstance(dtype, pl.List):
        return False
    return not item or not (any(isinstance(part, list) for part in item) or all(part is None for part in item))
