"""Which decoder reads what: formats of files, recognised by their first bytes, and Kafka topics, by their names."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from schemas.formats import (
    amd_smi,
    dcgm_counters,
    dcgm_dump,
    dcgm_text,
    ethtool_module,
    fabric_manager_log,
    gnmi_event,
    host_log,
    iblinkinfo,
    ibqueryerrors,
    ibswinfo,
    infiniband_exporter,
    infiniband_sysfs,
    mlxlink,
    nvidia_smi_capture,
    nvidia_smi_csv,
    nvidia_smi_text,
    nvidia_smi_xml,
    otlp_json,
    otlp_protobuf,
    outside_events,
    perfquery,
    prometheus_json,
    redfish,
    rocm_smi,
    sonic_fec,
    sonic_redis,
    sor,
    superbench,
    telegraf_json,
    ufm_telemetry,
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
    """A format of files. looks_like is given the first bytes and the name of a file, and must not fail for any.
    versions: of the tool or schema that have been read. leaves: what the source tells and no table takes. lines: many
    messages may be decoded as one, a line each, since each sample in them says whose it is and when.
    """

    name: str
    decode: Callable[[bytes, Surroundings], Decoded]
    looks_like: Callable[[bytes, str], bool]
    versions: str = ""
    leaves: str = ""
    lines: bool = False


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
    Format(sor.NAME, sor.decode, sor.looks_like, sor.VERSIONS, sor.LEAVES),
    *(
        Format(
            f"{wire_arrow.NAME} {table.name}",
            partial(wire_arrow.decode, table=table),
            partial(_names_arrow_table, table),
            wire_arrow.VERSIONS,
            wire_arrow.LEAVES,
        )
        for table in TABLES
    ),
    Format(
        nvidia_smi_xml.NAME,
        nvidia_smi_xml.decode,
        nvidia_smi_xml.looks_like,
        nvidia_smi_xml.VERSIONS,
        nvidia_smi_xml.LEAVES,
    ),
    Format(
        nvidia_smi_capture.NAME,
        nvidia_smi_capture.decode,
        nvidia_smi_capture.looks_like,
        nvidia_smi_capture.VERSIONS,
        nvidia_smi_capture.LEAVES,
    ),
    Format(
        nvidia_smi_text.NAME,
        nvidia_smi_text.decode,
        nvidia_smi_text.looks_like,
        nvidia_smi_text.VERSIONS,
        nvidia_smi_text.LEAVES,
    ),
    Format(dcgm_text.NAME, dcgm_text.decode, dcgm_text.looks_like, dcgm_text.VERSIONS, dcgm_text.LEAVES),
    Format(dcgm_dump.NAME, dcgm_dump.decode, dcgm_dump.looks_like, dcgm_dump.VERSIONS, dcgm_dump.LEAVES),
    Format(perfquery.NAME, perfquery.decode, perfquery.looks_like, perfquery.VERSIONS, perfquery.LEAVES),
    Format(
        ibqueryerrors.NAME, ibqueryerrors.decode, ibqueryerrors.looks_like, ibqueryerrors.VERSIONS, ibqueryerrors.LEAVES
    ),
    Format(iblinkinfo.NAME, iblinkinfo.decode, iblinkinfo.looks_like, iblinkinfo.VERSIONS, iblinkinfo.LEAVES),
    Format(ibswinfo.NAME, ibswinfo.decode, ibswinfo.looks_like, ibswinfo.VERSIONS, ibswinfo.LEAVES),
    Format(
        infiniband_sysfs.NAME,
        infiniband_sysfs.decode,
        infiniband_sysfs.looks_like,
        infiniband_sysfs.VERSIONS,
        infiniband_sysfs.LEAVES,
    ),
    Format(
        infiniband_exporter.NAME,
        infiniband_exporter.decode,
        infiniband_exporter.looks_like,
        infiniband_exporter.VERSIONS,
        infiniband_exporter.LEAVES,
    ),
    Format(sonic_fec.NAME, sonic_fec.decode, sonic_fec.looks_like, sonic_fec.VERSIONS, sonic_fec.LEAVES),
    Format(
        ethtool_module.NAME,
        ethtool_module.decode,
        ethtool_module.looks_like,
        ethtool_module.VERSIONS,
        ethtool_module.LEAVES,
    ),
    Format(mlxlink.NAME, mlxlink.decode, mlxlink.looks_like, mlxlink.VERSIONS, mlxlink.LEAVES),
    Format(
        ufm_telemetry.NAME, ufm_telemetry.decode, ufm_telemetry.looks_like, ufm_telemetry.VERSIONS, ufm_telemetry.LEAVES
    ),
    Format(sonic_redis.NAME, sonic_redis.decode, sonic_redis.looks_like, sonic_redis.VERSIONS, sonic_redis.LEAVES),
    Format(gnmi_event.NAME, gnmi_event.decode, gnmi_event.looks_like, gnmi_event.VERSIONS, gnmi_event.LEAVES),
    Format(
        dcgm_counters.NAME, dcgm_counters.decode, dcgm_counters.looks_like, dcgm_counters.VERSIONS, dcgm_counters.LEAVES
    ),
    Format(otlp_json.NAME, otlp_json.decode, otlp_json.looks_like, otlp_json.VERSIONS, otlp_json.LEAVES, lines=True),
    Format(
        otlp_protobuf.NAME, otlp_protobuf.decode, otlp_protobuf.looks_like, otlp_protobuf.VERSIONS, otlp_protobuf.LEAVES
    ),
    Format(
        prometheus_json.NAME,
        prometheus_json.decode,
        prometheus_json.looks_like,
        prometheus_json.VERSIONS,
        prometheus_json.LEAVES,
        lines=True,
    ),
    Format(
        telegraf_json.NAME,
        telegraf_json.decode,
        telegraf_json.looks_like,
        telegraf_json.VERSIONS,
        telegraf_json.LEAVES,
        lines=True,
    ),
    Format(redfish.NAME, redfish.decode, redfish.looks_like, redfish.VERSIONS, redfish.LEAVES),
    Format(amd_smi.NAME, amd_smi.decode, amd_smi.looks_like, amd_smi.VERSIONS, amd_smi.LEAVES),
    Format(rocm_smi.NAME, rocm_smi.decode, rocm_smi.looks_like, rocm_smi.VERSIONS, rocm_smi.LEAVES),
    Format(superbench.NAME, superbench.decode, superbench.looks_like, superbench.VERSIONS, superbench.LEAVES),
    *(
        Format(
            f"{wire.NAME} {table.name}",
            partial(wire.decode, table=table),
            partial(_names_table, table),
            wire.VERSIONS,
            wire.LEAVES,
        )
        for table in TABLES
    ),
    Format(
        outside_events.NAME,
        outside_events.decode,
        outside_events.looks_like,
        outside_events.VERSIONS,
        outside_events.LEAVES,
    ),
    Format(
        nvidia_smi_csv.NAME,
        nvidia_smi_csv.decode,
        nvidia_smi_csv.looks_like,
        nvidia_smi_csv.VERSIONS,
        nvidia_smi_csv.LEAVES,
    ),
    Format(
        fabric_manager_log.NAME,
        fabric_manager_log.decode,
        fabric_manager_log.looks_like,
        fabric_manager_log.VERSIONS,
        fabric_manager_log.LEAVES,
    ),
    Format(host_log.NAME, host_log.decode, host_log.looks_like, host_log.VERSIONS, host_log.LEAVES),
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
