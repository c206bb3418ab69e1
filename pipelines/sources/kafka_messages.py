"""From the messages of one partition to admitted rows, with topic, partition and offset of what was refused."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import polars as pl
from kafka.consumer.fetcher import ConsumerRecord

from pipelines.intake import Intake, Piece, joined, take_in
from pipelines.topics import FORMATS, Format
from schemas.admission import Origin
from schemas.formats import wire
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable, rejects_frame
from schemas.formats.sor import decode as decode_sor
from schemas.tables import TABLE_BY_NAME, Table

ARROW_STARTS = (b"ARROW1", b"\xff\xff\xff\xff")
AHEAD_MAXIMUM = timedelta(hours=24)
OTDR = "otdr"


@dataclass(frozen=True, kw_only=True)
class TopicReader:
    """How one topic is read: our own wire format for `table`, .sor bytes, or another producer's format."""

    topic: str
    table: Table | None
    format: Format | None
    bytes_maximum: int

    def take(self, partition: int, records: Sequence[ConsumerRecord]) -> Intake:
        """Rows of the messages. Where a row breaks a rule, messages are taken one by one, to name the offset."""
        together = self._read(partition, records)
        if len(records) > 1 and not together.quarantined.is_empty():
            return joined([self._read(partition, [record]) for record in records])
        return together

    def _read(self, partition: int, records: Sequence[ConsumerRecord]) -> Intake:
        origin = Origin(topic=self.topic, partition=partition, offset=records[0].offset)
        if self.table is not None:
            decoded = self._wire(self.table, records)
        else:
            decoded = _together([self._other(record) for record in records])
        pieces = [Piece(name, frame, origin) for name, frame in decoded.tables.items()]
        rejects = decoded.rejects.with_columns(
            topic=pl.lit(self.topic), partition=pl.lit(partition, pl.Int64), offset=pl.lit(records[0].offset, pl.Int64)
        )
        return _not_from_the_future(take_in(pieces, rejects), records[-1].timestamp, origin)

    def _wire(self, table: Table, records: Sequence[ConsumerRecord]) -> Decoded:
        arrow = [record for record in records if (record.value or b"").startswith(ARROW_STARTS)]
        texts = [record.value or b"" for record in records if not (record.value or b"").startswith(ARROW_STARTS)]
        frame, rejected = wire.decode_json(texts, table, self.bytes_maximum)
        decoded = Decoded(
            tables={table.name: frame} if frame.height else {},
            rejects=rejects_frame([reject for _, reject in rejected], table.name),
        )
        return _together([decoded, *(self._arrow(table, record) for record in arrow)])

    def _arrow(self, table: Table, record: ConsumerRecord) -> Decoded:
        try:
            return Decoded(tables={table.name: wire.decode_arrow(record.value, table)})
        except Unreadable as error:
            return _refused(error, record)

    def _other(self, record: ConsumerRecord) -> Decoded:
        value = record.value or b""
        headers = {name: (content or b"").decode(errors="replace") for name, content in record.headers}
        surroundings = Surroundings(
            node=headers.get("node") or (record.key or b"").decode(errors="replace") or "unknown",
            received_at=datetime.fromtimestamp(record.timestamp / 1000, UTC), bytes_maximum=self.bytes_maximum,
        )  # fmt: skip
        try:
            if self.format is None:
                cable, direction = headers.get("cable", "unknown"), headers.get("direction", "AB")
                return decode_sor(value, surroundings, cable=cable, direction=direction)
            return self.format.decode(value, surroundings)
        except Unreadable as error:
            return _refused(error, record)


def reader_of(topic: str, prefix: str, formats: dict[str, str], bytes_maximum: int) -> TopicReader | None:
    """How to read the topic; None for one that is not ours."""
    if topic in formats:
        found = next((entry for entry in FORMATS if entry.name == formats[topic]), None)
        return None if found is None else TopicReader(topic=topic, table=None, format=found, bytes_maximum=bytes_maximum)
    name = topic.removeprefix(prefix)
    if not topic.startswith(prefix) or (name != OTDR and name not in TABLE_BY_NAME):
        return None
    return TopicReader(topic=topic, table=TABLE_BY_NAME.get(name), format=None, bytes_maximum=bytes_maximum)


def _refused(error: Unreadable, record: ConsumerRecord) -> Decoded:
    raw = record.value or b""
    return Decoded(rejects=rejects_frame([Reject(rule="message|unreadable", reason=str(error), raw=raw)]))


def _together(parts: Sequence[Decoded]) -> Decoded:
    names = {name for part in parts for name in part.tables}
    return Decoded(
        tables={
            name: pl.concat([part.tables[name] for part in parts if name in part.tables], how="diagonal_relaxed")
            for name in sorted(names)
        },
        rejects=pl.concat([part.rejects for part in parts]),
    )


def _not_from_the_future(intake: Intake, written_milliseconds: int, origin: Origin) -> Intake:
    """Without rows whose event time is a day ahead of when the message was written: one broken clock would carry the
    watermark past everybody else.
    """
    limit = datetime.fromtimestamp(written_milliseconds / 1000, UTC) + AHEAD_MAXIMUM
    refused: list[Reject] = []
    tables: dict[str, pl.DataFrame] = {}
    for name, rows in intake.tables.items():
        ahead = pl.col(TABLE_BY_NAME[name].time) > limit
        tables[name] = rows.filter(~ahead)
        refused.extend(
            Reject(rule="time|future", reason=f"{name} row a day ahead of its message", raw=text.encode())
            for text in rows.filter(ahead).select(pl.struct(pl.all()).struct.json_encode().alias("row"))["row"]
        )
    if not refused:
        return intake
    rejects = rejects_frame(refused).with_columns(
        topic=pl.lit(origin.topic), partition=pl.lit(origin.partition, pl.Int64), offset=pl.lit(origin.offset, pl.Int64)
    )
    return replace(intake, tables=tables, quarantined=pl.concat([intake.quarantined, rejects]))
