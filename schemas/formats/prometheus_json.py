"""Prometheus remote write, as an adapter puts it on Kafka: JSON objects with name, labels, value and timestamp.

One object a message, a list of them, or one a line. The stream carries every series that Prometheus scrapes, so what
is no GPU series is passed over in silence. `value` is a text, which may say NaN: a series that has ended.
"""

import re

from schemas.formats import payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable
from schemas.formats.gpu_labels import GpuSamples
from schemas.formats.gpu_samples import DCGM_FIELDS
from schemas.formats.json_values import documents, microseconds

NAME = "Prometheus JSON"
LOOKS = re.compile(r'"labels"\s*:\s*\{[^{}]*"__name__"\s*:|"name"\s*:\s*"(DCGM_|infiniband_)\w+"')


def looks_like(head: bytes, name: str) -> bool:  # noqa: ARG001  every format answers to the same question
    text = payload.head_text(head)
    return LOOKS.search(text) is not None and '"value"' in text


def decode(data: bytes, surroundings: Surroundings) -> Decoded:
    """Rows of gpu, one per host, GPU and time, from DCGM series. timestamp: ISO 8601, or a number of s, ms, us or ns.

    Rejects: objects that are no sample, samples without a readable time and MIG instances one by one; values that are
    no numbers, blanks and readings out of range counted by field. Raises Unreadable when no object is a sample.
    """
    samples = GpuSamples(DCGM_FIELDS, surroundings, place="message")
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
        if not isinstance(name, str) or name not in samples.known:
            continue
        time = microseconds(item.get("timestamp"), surroundings.utc_offset_minutes)
        if time is None and item.get("timestamp") is not None:
            reason = f"message {at}: cannot read timestamp {str(item['timestamp'])[:80]!r}"
            samples.rejects.append(Reject(rule="time|type", reason=reason, place=at))
            continue
        samples.add(at, name, item["value"], time, labels)
    if not seen:
        raise Unreadable(f"{NAME}: no object with labels and value among {len(samples.rejects)}")
    return samples.decoded()
