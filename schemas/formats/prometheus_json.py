"""Prometheus remote write, as an adapter puts it on Kafka: JSON objects with name, labels, value and timestamp.

One object a message, a list of them, or one a line. The stream carries every series that Prometheus scrapes, so what
is neither of DCGM nor of an InfiniBand exporter is passed over in silence. `value` is a text, which may say NaN: a
series that has ended. InfiniBand samples are written back as the text that was scraped, and read as such.
"""

import re
from typing import Any

from schemas.formats import infiniband_exporter, payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable
from schemas.formats.gpu_labels import GpuSamples
from schemas.formats.gpu_samples import DCGM_FIELDS
from schemas.formats.json_values import NUMBER, documents, microseconds

NAME = "Prometheus JSON"
VERSIONS = "prometheus-kafka-adapter 1.x JSON; one object, a list or lines"
LEAVES = "series of anything but DCGM and infiniband exporters, MIG instances, single NVLinks"
LOOKS = re.compile(r'"labels"\s*:\s*\{[^{}]*"__name__"\s*:|"name"\s*:\s*"(DCGM_|infiniband_)\w+"')


INFINIBAND = re.compile(r"infini(?:ni)?band_\w{1,200}")
LABEL = re.compile(r"[a-zA-Z_]\w{0,200}")


def looks_like(head: bytes, name: str) -> bool:  # noqa: ARG001  every format answers to the same question
    text = payload.head_text(head)
    return LOOKS.search(text) is not None and '"value"' in text


def decode(data: bytes, surroundings: Surroundings) -> Decoded:
    """Rows of gpu, one per host, GPU and time, from DCGM series, and of fabric_port from InfiniBand ones. timestamp:
    ISO 8601, or a number of s, ms, us or ns.

    Rejects: objects that are no sample, samples without a readable time and MIG instances one by one; values that are
    no numbers, blanks and readings out of range counted by field. Raises Unreadable when no object is a sample.
    """
    samples = GpuSamples(DCGM_FIELDS, surroundings, place="message")
    scraped: list[str] = []
    seen = 0
    for at, item in documents(data, surroundings, NAME, samples.rejects):
        labels = item.get("labels") if isinstance(item, dict) else None
        if not isinstance(labels, dict) or "value" not in item:
            samples.rejects.append(
                Reject(rule="message|sample", reason=f"message {at}: no object with labels and value", place=at)
            )
            continue
        seen += 1
        name = item.get("name") or labels.get("__name__")
        if not isinstance(name, str) or (name not in samples.known and not INFINIBAND.fullmatch(name)):
            continue
        time = microseconds(item.get("timestamp"), surroundings.utc_offset_minutes)
        if time is None and item.get("timestamp") is not None:
            reason = f"message {at}: cannot read timestamp {str(item['timestamp'])[:80]!r}"
            samples.rejects.append(Reject(rule="time|type", reason=reason, place=at))
            continue
        if name in samples.known:
            samples.add(at, name, item["value"], time, labels)
        else:
            scraped += [""] * (at - len(scraped) - 1) + [_line(name, labels, item["value"], time)]
    if not seen:
        raise Unreadable(f"{NAME}: no object with labels and value among {len(samples.rejects)}")
    gpus = samples.decoded()
    if not scraped:
        return gpus
    ports = infiniband_exporter.decode("\n".join(scraped).encode(), surroundings)
    return Decoded(
        tables=gpus.tables | ports.tables, rejects=gpus.rejects.vstack(ports.rejects),
        missing=(gpus.missing if gpus.tables else ()) + ports.missing,
    )  # fmt: skip


def _line(name: str, labels: dict[str, Any], value: Any, time: int | None) -> str:
    """The sample as exposition text; its line number is the message's."""
    pairs = [
        f'{label}="{escaped}"'
        for label, text in labels.items()
        if label != "__name__" and LABEL.fullmatch(label) and isinstance(text, str)
        for escaped in [text.replace("\\", r"\\").replace('"', r"\"").replace("\n", " ").replace("\r", " ")]
    ]
    stamp = "" if time is None else f" {time // 1000}"
    number = str(value).strip()[:40]
    return f"{name}{{{','.join(pairs)}}} {number if NUMBER.fullmatch(number) else 'NaN'}{stamp}"
