"""Which decoder reads what: formats of files, recognised by their first bytes, and Kafka topics, by their names."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from schemas.formats import (
    dcgm_dump,
    dcgm_text,
    kernel_log,
    nvidia_smi_capture,
    nvidia_smi_csv,
    nvidia_smi_text,
    nvidia_smi_xml,
    sor,
    wire,
    wire_arrow,
)
from schemas.formats.decoded import Decoded, Surroundings
from schemas.tables import TABLES, Table

HEAD_BYTES = 8192
"""As much of a file as `recognise` wants to see."""

TOPIC_PREFIX = "hotspare."
OTDR_TOPIC = "hotspare.otdr"
OTDR_HEADERS = ("cable", "direction")
"""Headers of a message with .sor bytes; their values are UTF-8."""


@dataclass(frozen=True)
class Format:
    """A format of files. looks_like is given the first bytes and the name of a file, and must not fail for any."""

    name: str
    decode: Callable[[bytes, Surroundings], Decoded]
    looks_like: Callable[[bytes, str], bool]


@dataclass(frozen=True)
class Topic:
    """A Kafka topic. table: whose messages are in the wire format; None where each message is a .sor file."""

    name: str
    table: Table | None
    tables: tuple[str, ...]


def _names_table(table: Table, head: bytes, name: str) -> bool:
    """gpu.jsonl, gpu.ndjson, gpu.json: files of wire messages carry the name of their table."""
    stem, _, suffix = name.rpartition("/")[2].lower().rpartition(".")
    return stem == table.name and suffix in {"jsonl", "ndjson", "json"} and head.lstrip()[:1] == b"{"


def _names_arrow_table(table: Table, head: bytes, name: str) -> bool:
    return name.rpartition("/")[2].lower().partition(".")[0] == table.name and wire_arrow.looks_like(head, name)


# The order matters where one format can contain another's marks: the more particular come first.
FORMATS: tuple[Format, ...] = (
    Format(sor.NAME, sor.decode, sor.looks_like),
    *(
        Format(
            f"{wire_arrow.NAME} {table.name}",
            partial(wire_arrow.decode, table=table),
            partial(_names_arrow_table, table),
        )
        for table in TABLES
    ),
    Format(nvidia_smi_xml.NAME, nvidia_smi_xml.decode, nvidia_smi_xml.looks_like),
    Format(nvidia_smi_capture.NAME, nvidia_smi_capture.decode, nvidia_smi_capture.looks_like),
    Format(nvidia_smi_text.NAME, nvidia_smi_text.decode, nvidia_smi_text.looks_like),
    Format(dcgm_text.NAME, dcgm_text.decode, dcgm_text.looks_like),
    Format(dcgm_dump.NAME, dcgm_dump.decode, dcgm_dump.looks_like),
    *(
        Format(f"{wire.NAME} {table.name}", partial(wire.decode, table=table), partial(_names_table, table))
        for table in TABLES
    ),
    Format(nvidia_smi_csv.NAME, nvidia_smi_csv.decode, nvidia_smi_csv.looks_like),
    Format(kernel_log.NAME, kernel_log.decode, kernel_log.looks_like),
)

TOPICS: tuple[Topic, ...] = (
    *(Topic(f"{TOPIC_PREFIX}{table.name}", table, (table.name,)) for table in TABLES),
    Topic(OTDR_TOPIC, None, ("otdr_trace", "otdr_event")),
)


def recognise(name: str, head: bytes) -> Format | None:
    """The first format that a file looks like, from its name and first HEAD_BYTES; None when it is none of ours."""
    return next((form for form in FORMATS if form.looks_like(head[:HEAD_BYTES], name)), None)


def topic(name: str) -> Topic | None:
    """The topic of this name; None for one that this product does not read."""
    return next((known for known in TOPICS if known.name == name), None)


def decode_otdr_message(value: bytes, headers: list[tuple[str, bytes]], surroundings: Surroundings) -> Decoded:
    """A message of OTDR_TOPIC. A header that is not there leaves the choice to the file."""
    texts = {key: raw.decode("utf-8", errors="replace") for key, raw in headers if key in OTDR_HEADERS and raw}
    return sor.decode(value, surroundings, cable=texts.get("cable"), direction=texts.get("direction"))
