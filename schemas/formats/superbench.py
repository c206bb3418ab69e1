"""SuperBench monitor records to gpu: a JSON object a tick, with keys like `gpu_temperature:0`.

`gpu_mem_used` is in bytes, unlike nvidia-smi's MiB; `gpu_power_limit` is the cap, not the power drawn. `time` is local
time without a zone.
"""

import re

from schemas.formats import payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable
from schemas.formats.gpu_labels import GpuSamples
from schemas.formats.gpu_samples import Field
from schemas.formats.json_values import documents, microseconds

NAME = "SuperBench monitor"
VERSIONS = "monitor records of 0.x"
LEAVES = "gpu_power_limit, gpu_mem_total, CPU and network rates"
KEY = re.compile(r"(gpu_[a-z_]+):(\d{1,3})")
LOOKS = re.compile(r'"gpu_(?:usage|temperature|mem_used|power_limit|corrected_ecc):\d')
FIELDS = (
    Field("utilization_percent", ("gpu_usage",)),
    Field("temperature_celsius", ("gpu_temperature",)),
    Field("memory_used_bytes", ("gpu_mem_used",)),
    Field("ecc_correctable_total", ("gpu_corrected_ecc",)),
    Field("ecc_uncorrectable_total", ("gpu_uncorrected_ecc",)),
)


def looks_like(head: bytes, name: str) -> bool:  # noqa: ARG001  every format answers to the same question
    return LOOKS.search(payload.head_text(head)) is not None


def decode(data: bytes, surroundings: Surroundings) -> Decoded:
    """Rows of gpu, one per record and GPU; utc_offset_minutes is taken off their local time.

    Rejects: lines that are no record, or whose time cannot be read, one by one. Raises Unreadable without any record.
    """
    samples = GpuSamples(FIELDS, surroundings, place="line")
    seen = 0
    for at, record in documents(data, surroundings, NAME, samples.rejects):
        keys = [(KEY.fullmatch(key), value) for key, value in record.items()] if isinstance(record, dict) else []
        found = [(match.group(1), match.group(2), value) for match, value in keys if match]
        if not found:
            samples.rejects.append(Reject(rule="line|record", reason=f"line {at}: no gpu_...:N key", place=at))
            continue
        seen += 1
        time = microseconds(record.get("time"), surroundings.utc_offset_minutes)
        if time is None:
            reason = f"line {at}: cannot read time {str(record.get('time'))[:80]!r}"
            samples.rejects.append(Reject(rule="time|type", reason=reason, place=at))
            continue
        for metric, slot, value in found:
            samples.add(at, metric, value, time, {"gpu": slot})
    if not seen:
        raise Unreadable(f"{NAME}: no record with gpu_...:N keys among {len(samples.rejects)}")
    return samples.decoded()
