"""`amd-smi metric --json` to gpu: a list of GPUs (6.x), or {"gpu_data": [...]} (7.x).

A value is {"value": 42, "unit": "%"}, a bare number, or the text "N/A"; which one differs between GPUs and between
partitions of one card in the same output. "MB" of memory is MiB: the tool divides by 1024 * 1024.
"""

import re
from typing import Any

from schemas.formats import payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable
from schemas.formats.gpu_labels import GpuSamples
from schemas.formats.gpu_samples import Field
from schemas.formats.json_values import documents, microseconds
from schemas.formats.units import conversion
from schemas.gpu import Gpu

NAME = "amd-smi JSON"
VERSIONS = "list of 6.x, gpu_data of 7.x"
LEAVES = "per-engine activity and clocks, voltages, fan, per-block ECC, throttle accumulators, processes"
LOOKS = re.compile(r'"(socket_power|current_socket_power|average_socket_power|gfx_activity|total_correctable_count)"')
# Column, and the places it is read from in order of preference. The hotspot sensor is the one that limits the clock,
# and data-centre cards have no edge sensor.
PLACES = (
    ("temperature_celsius", ("temperature.hotspot", "temperature.edge")),
    ("memory_temperature_celsius", ("temperature.mem",)),
    ("power_watts", ("power.socket_power", "power.current_socket_power", "power.average_socket_power")),
    ("sm_clock_megahertz", ("clock.gfx_0.clk", "clock.gfx.clk")),
    ("utilization_percent", ("usage.gfx_activity",)),
    ("memory_used_bytes", ("mem_usage.used_vram",)),
    ("ecc_correctable_total", ("ecc.total_correctable_count", "ecc.total_correct")),
    ("ecc_uncorrectable_total", ("ecc.total_uncorrectable_count", "ecc.total_uncorrect")),
    ("pcie_replay_total", ("pcie.replay_count",)),
    ("pcie_width", ("pcie.width", "pcie.current_lanes")),
    ("pcie_generation", ("pcie.speed",)),
    ("energy_joules_total", ("energy.total_energy_consumption",)),
)
FIELDS = tuple(
    Field(column, places, zero_is_blank=column in {"memory_temperature_celsius", "energy_joules_total"})
    for column, places in PLACES
)
GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}  # PCI Express: gigatransfers per second


def looks_like(head: bytes, name: str) -> bool:  # noqa: ARG001  every format answers to the same question
    text = payload.head_text(head)
    return '"gpu"' in text and LOOKS.search(text) is not None


def decode(data: bytes, surroundings: Surroundings) -> Decoded:
    """Rows of gpu, one per GPU, at the entry's own timestamp (as `--watch` writes) or received_at.

    Rejects: entries that are no GPU one by one; "N/A" and other words, and units that are not known, counted by
    column. Raises Unreadable when no entry is a GPU.
    """
    samples = GpuSamples(FIELDS, surroundings, place="entry")
    entries: list[Any] = []
    for _, item in documents(data, surroundings, NAME, samples.rejects):
        inner = item.get("gpu_data") if isinstance(item, dict) else None
        entries += inner if isinstance(inner, list) else [item]
    seen = 0
    for at, entry in enumerate(entries, 1):
        slot = entry.get("gpu") if isinstance(entry, dict) else None
        if isinstance(slot, bool) or not isinstance(slot, int):
            samples.rejects.append(Reject(rule="entry|gpu", reason=f"entry {at}: no object with a gpu", place=at))
            continue
        seen += 1
        time = microseconds(entry.get("timestamp"), surroundings.utc_offset_minutes)
        labels = {"gpu": slot, "uuid": entry.get("uuid")}
        for column, places in PLACES:
            shown = [place for place in places if _at(entry, place) is not None]
            for place in shown:
                value = _value(samples, column, _at(entry, place), at)
                if value is not None or place == shown[-1]:
                    samples.add(at, place, value, time, labels)
                    break
    if not seen:
        raise Unreadable(f"{NAME}: no GPU among {len(entries)} entries")
    return samples.decoded()


def _at(entry: Any, path: str) -> Any:
    for key in path.split("."):
        entry = entry.get(key) if isinstance(entry, dict) else None
    return entry


def _value(samples: GpuSamples, column: str, value: Any, at: int) -> float | None:
    """The number in the table's unit, whichever of its shapes it has; null and absent parts are no reading."""
    unit = None
    if isinstance(value, dict):
        value, unit = value.get("value"), value.get("unit")
    number = samples.readings.number(column, value, at)
    if number is None:
        return None
    if column == "pcie_generation":
        if number not in GENERATIONS:
            samples.readings.lose(column, "range", number, at)
        return GENERATIONS.get(number)
    if not isinstance(unit, str) or not unit:
        return number
    if column == "memory_used_bytes":
        unit = {"MB": "MiB", "KB": "KiB", "GB": "GiB"}.get(unit, unit)
    found = conversion(unit, (Gpu.columns()[column].metadata or {})["unit"])
    if found is None:
        samples.readings.lose(column, "unit", f"{number} {unit}", at)
        return None
    return found.of(number)
