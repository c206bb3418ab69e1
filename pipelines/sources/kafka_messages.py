"""From the messages of one partition to admitted rows, with topic, partition and offset of what was refused."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import itemgetter

import polars as pl
from kafka.consumer.fetcher import ConsumerRecord

from pipelines.intake import Intake, Piece, joined, take_in
from pipelines.source_notes import SourceNotes, skew_of
from pipelines.sources.arrival_lags import DELAY_COLUMNS
from pipelines.sources.message_delays import part_delays, wire_delays
from pipelines.topics import FORMATS, Format, decode_otdr_message
from schemas.admission import Origin
from schemas.formats import wire, wire_arrow
from schemas.formats.decoded import (
    REJECT_BYTES_MAXIMUM,
    Decoded,
    Reject,
    Surroundings,
    Unreadable,
    rejects_frame,
)
from schemas.tables import TABLE_BY_NAME, Table

AHEAD_MAXIMUM = timedelta(hours=24)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
YEAR_9999_MILLISECONDS = 253_370_764_800_000
OTDR = "otdr"
# When a row was sent, where that is not its time: a maintenance window is announced long before it begins.
SENT_COLUMNS = {"maintenance": "announced_at", "outside_event": "recorded_at"}


@dataclass(frozen=True, kw_only=True)
class TopicReader:
    """How one topic is read: our own wire format for `table`, .sor bytes, or another producer's format."""

    topic: str
    table: Table | None
    format: Format | None
    bytes_maximum: int

    def take(self, partition: int, records: Sequence[ConsumerRecord]) -> Intake:
        """Rows of the messages. Where something is refused the messages are halved, until one is left to name."""
        together = self._read(partition, records)
        if together.quarantined.is_empty():
            return together
        if len(records) == 1:
            return _with_bytes(together, records[0].value or b"")
        middle = len(records) // 2
        return joined([self.take(partition, records[:middle]), self.take(partition, records[middle:])])

    def _read(self, partition: int, records: Sequence[ConsumerRecord]) -> Intake:
        origin = Origin(topic=self.topic, partition=partition, offset=records[0].offset)
        if self.table is None:
            parts = self._others(records)
            delays = part_delays(records, parts)
        else:
            parts, delays = self._wire(self.table, records)
        pieces = [Piece(name, frame, origin) for part in parts for name, frame in part.tables.items()]
        rejects = _placed(pl.concat([part.rejects for part in parts]), origin, records[0].value or b"")
        intake = _not_from_the_future(take_in(pieces, rejects), records, origin)
        seen = SourceNotes(
            missing={self.topic: frozenset.intersection(*(frozenset(part.missing) for part in parts))},
            skew=skew_of(intake.tables, written_at(records[-1])),
            delays=delays,
        )
        return replace(intake, notes=seen)

    def _wire(self, table: Table, records: Sequence[ConsumerRecord]) -> tuple[list[Decoded], pl.DataFrame]:
        """In the order of the messages: JSON ones that follow each other are decoded together. And DELAY_COLUMNS."""
        parts: list[Decoded] = []
        delays = [pl.DataFrame(schema=DELAY_COLUMNS)]
        for arrow, run in _runs(records):
            if arrow:
                mine = [self._arrow(table, record) for record in run]
                delays.append(part_delays(run, mine))
                parts.extend(mine)
                continue
            frame, rejected = wire.decode_json([record.value or b"" for record in run], table, self.bytes_maximum)
            rejects = rejects_frame([reject for _, reject in rejected], table.name)
            parts.append(Decoded(tables={table.name: frame} if frame.height else {}, rejects=rejects))
            delays.append(wire_delays(table.name, run))
        return parts, pl.concat(delays)

    def _arrow(self, table: Table, record: ConsumerRecord) -> Decoded:
        try:
            return wire_arrow.decode_arrow(record.value, table, Surroundings(bytes_maximum=self.bytes_maximum))
        except Unreadable as error:
            return _refused(error, record, table.name)

    def _others(self, records: Sequence[ConsumerRecord]) -> list[Decoded]:
        """Message by message; those of a format of lines together, for one costs as much to decode as a thousand."""
        largest = max(len(record.value or b"") for record in records)
        if self.format is None or not self.format.lines or len(records) == 1 or largest > self.bytes_maximum:
            return [self._other(record) for record in records]
        text = b"\n".join((record.value or b"").replace(b"\n", b" ") for record in records)
        surroundings = replace(_surroundings(records[0]), bytes_maximum=len(text))
        try:
            return [self.format.decode(text, surroundings)]
        except Unreadable as error:
            return [_refused(error, records[0], None)]

    def _other(self, record: ConsumerRecord) -> Decoded:
        surroundings = replace(_surroundings(record), bytes_maximum=self.bytes_maximum)
        try:
            if self.format is None:
                return decode_otdr_message(record.value or b"", record.headers, surroundings)
            return self.format.decode(record.value or b"", surroundings)
        except Unreadable as error:
            return _refused(error, record, None)


def reader_of(topic: str, prefix: str, formats: Mapping[str, str | Format], bytes_maximum: int) -> TopicReader | None:
    """How to read the topic; None for one that is not ours."""
    if topic in formats:
        named = formats[topic]
        found = named if isinstance(named, Format) else next((form for form in FORMATS if form.name == named), None)
        return (
            None if found is None else TopicReader(topic=topic, table=None, format=found, bytes_maximum=bytes_maximum)
        )
    name = topic.removeprefix(prefix)
    if not topic.startswith(prefix) or (name != OTDR and name not in TABLE_BY_NAME):
        return None
    return TopicReader(topic=topic, table=TABLE_BY_NAME.get(name), format=None, bytes_maximum=bytes_maximum)


def _surroundings(record: ConsumerRecord) -> Surroundings:
    headers = {name: (content or b"").decode(errors="replace") for name, content in record.headers}
    return Surroundings(
        node=headers.get("node") or (record.key or b"").decode(errors="replace") or "unknown",
        received_at=written_at(record) or EPOCH,
    )


def newest_of(intake: Intake) -> datetime | None:
    """When the newest of the rows was sent, by their own clocks; None where no row says."""
    times = [rows[sent_column(name)].max() for name, rows in intake.tables.items() if not rows.is_empty()]
    return max((moment for moment in times if isinstance(moment, datetime)), default=None)


def sent_column(table: str) -> str:
    return SENT_COLUMNS.get(table, TABLE_BY_NAME[table].time)


def _runs(records: Sequence[ConsumerRecord]) -> Iterator[tuple[bool, Sequence[ConsumerRecord]]]:
    """Messages that follow each other and are all Arrow, or all not."""
    arrow = [(record.value or b"").startswith(wire_arrow.MARKS) for record in records]
    if not any(arrow):
        yield False, records  # as nearly always
        return
    for is_arrow, group in groupby(zip(arrow, records, strict=True), itemgetter(0)):
        yield is_arrow, [record for _, record in group]


def _refused(error: Unreadable, record: ConsumerRecord, table: str | None) -> Decoded:
    reject = Reject(rule="message|unreadable", reason=str(error), raw=record.value or b"")
    return Decoded(rejects=rejects_frame([reject], table))


def _placed(rejects: pl.DataFrame, origin: Origin, value: bytes) -> pl.DataFrame:
    """With topic, partition and offset; a reject without bytes of its own gets the message's."""
    if rejects.is_empty():
        return rejects
    raw = pl.col("raw")
    return rejects.with_columns(
        topic=pl.lit(origin.topic), partition=pl.lit(origin.partition, pl.Int64),
        offset=pl.lit(origin.offset, pl.Int64),
        raw=pl.when(raw.bin.size() > 0).then(raw).otherwise(pl.lit(value[:REJECT_BYTES_MAXIMUM], pl.Binary)),
    )  # fmt: skip


def _with_bytes(intake: Intake, value: bytes) -> Intake:
    """A refused message of one row is kept as it came; of a message of many rows the refused ones are."""
    if intake.quarantined.height != 1 or any(not rows.is_empty() for rows in intake.tables.values()):
        return intake
    raw = pl.lit(value[:REJECT_BYTES_MAXIMUM], pl.Binary)
    return replace(intake, quarantined=intake.quarantined.with_columns(raw=raw))


def written_at(record: ConsumerRecord) -> datetime | None:
    """When the message was written, as its producer or the broker says; None for a message without a time."""
    milliseconds = record.timestamp
    if milliseconds is None or milliseconds < 0:
        return None
    return _moment(milliseconds)


def _moment(milliseconds: int) -> datetime:
    return EPOCH + timedelta(milliseconds=min(milliseconds, YEAR_9999_MILLISECONDS))


def _not_from_the_future(intake: Intake, records: Sequence[ConsumerRecord], origin: Origin) -> Intake:
    """Without rows whose event time is a day ahead of when the message was written: one broken clock would carry the
    watermark past everybody else.
    """
    written = [record.timestamp for record in records if record.timestamp is not None and record.timestamp >= 0]
    if not written:
        return intake
    limit = _moment(min(written)) + AHEAD_MAXIMUM
    refused: list[pl.DataFrame] = []
    tables: dict[str, pl.DataFrame] = {}
    for name, rows in intake.tables.items():
        ahead = rows.select(ahead=(pl.col(sent_column(name)) > limit).fill_null(value=False))["ahead"]
        if not ahead.any():
            tables[name] = rows
            continue
        tables[name] = rows.filter(~ahead)
        reason = f"{name} row a day or more ahead of its message"
        texts = rows.filter(ahead).select(pl.struct(pl.all()).struct.json_encode().alias("row"))["row"]
        rejects = [Reject(rule="time|future", reason=reason, raw=text.encode()) for text in texts]
        refused.append(_placed(rejects_frame(rejects, name), origin, b""))
    return replace(intake, tables=tables, quarantined=pl.concat([intake.quarantined, *refused]))
