"""`rocm-smi --json` to gpu: {"card0": {"Temperature (Sensor edge) (C)": "53.0", ...}}.

Keys hold the unit and change with every release, in case, brackets and words; all values are text. So a key is read
as its words, and a column has a pattern of words.
"""

import re
from typing import Any

from schemas.formats import payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable
from schemas.formats.gpu_labels import GpuSamples
from schemas.formats.gpu_samples import Field
from schemas.formats.json_values import document

NAME = "rocm-smi JSON"
VERSIONS = "rocm-smi 4 to 7 key spellings"
LEAVES = "voltages, fan, memory clocks, VRAM total, RAS blocks, card texts"
CARD = re.compile(r"(?:card|gpu)\W?(\d{1,3})\W?", re.IGNORECASE)
LOOKS = re.compile(r'"(?:card|gpu)\W?\d{1,3}\W?"\s*:\s*\{\s*"', re.IGNORECASE)
CLOCK = re.compile(r"^\(?(\d+(?:\.\d+)?)\s*MHz\)?$", re.IGNORECASE)
# Column, factor, and patterns over the key's words in order of preference. As in amd_smi.py, junction before edge.
KEYS = (
    ("temperature_celsius", 1.0, (r"temperature sensor junction c", r"temperature sensor edge c")),
    ("memory_temperature_celsius", 1.0, (r"temperature sensor (memory|mem) c",)),
    ("power_watts", 1.0, (r"(current|average) (socket )?(graphics )?package power w",)),
    ("sm_clock_megahertz", 1.0, (r"sclk clock speed",)),
    ("utilization_percent", 1.0, (r"gpu use",)),
    ("memory_used_bytes", 1.0, (r"vram total used memory b",)),
    ("memory_used_bytes", 2.0**20, (r"vram total used memory mib",)),
    ("pcie_replay_total", 1.0, (r"pcie replay count",)),
    ("energy_joules_total", 1e-6, (r"accumulated energy uj",)),
)
UUID_WORDS = "unique id"
FIELDS = tuple(
    Field(column, tuple(name for ours, _, names in KEYS if ours == column for name in names),
          zero_is_blank=column == "memory_temperature_celsius")
    for column in dict.fromkeys(column for column, _, _ in KEYS)
)  # fmt: skip


def looks_like(head: bytes, name: str) -> bool:  # noqa: ARG001  every format answers to the same question
    return LOOKS.search(payload.head_text(head)) is not None


def decode(data: bytes, surroundings: Surroundings) -> Decoded:
    """Rows of gpu at received_at, one per card. Rejects: cards that are no objects one by one; words in place of
    numbers counted by column. Raises Unreadable when there is no card.
    """
    tree = document(data, surroundings, NAME)
    samples = GpuSamples(FIELDS, surroundings, place="card")
    cards = [(CARD.fullmatch(key), card) for key, card in tree.items()] if isinstance(tree, dict) else []
    found = [(int(match.group(1)), card) for match, card in cards if match]
    if not any(isinstance(card, dict) for _, card in found):
        raise Unreadable(f"{NAME}: no card")
    for slot, card in found:
        if not isinstance(card, dict):
            samples.rejects.append(Reject(rule="card|object", reason=f"card {slot}: no object", place=slot))
            continue
        _take(samples, slot, {_words(key): value for key, value in card.items()})
    return samples.decoded()


def _words(key: str) -> str:
    return " ".join(re.findall(r"[a-z0-9]+", key.lower()))


def _take(samples: GpuSamples, slot: int, card: dict[str, Any]) -> None:
    labels = {"gpu": slot, "uuid": card.get(UUID_WORDS)}
    for column, factor, patterns in KEYS:
        for pattern in patterns:
            value = next((card[words] for words in card if re.fullmatch(pattern, words)), None)
            if value is None:
                continue
            clock = CLOCK.match(value) if isinstance(value, str) else None
            number = samples.readings.number(column, clock.group(1) if clock else value, slot)
            samples.add(slot, pattern, None if number is None else number * factor, None, labels)
            if number is not None:
                break
