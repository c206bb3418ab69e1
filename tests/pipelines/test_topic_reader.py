"""Other producers' messages, without a broker: how TopicReader puts them together and takes them apart."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from pipelines.sources.kafka_messages import reader_of
from schemas.formats import prometheus_json

SECONDS = 1_785_499_200


def record(offset: int, value: bytes) -> Any:
    return SimpleNamespace(offset=offset, value=value, key=b"n1", headers=[], timestamp=SECONDS * 1000)


def sample(field: str, value: str, indent: int | None = None) -> bytes:
    name = f"DCGM_FI_DEV_{field}"
    labels = {"__name__": name, "gpu": "3", "Hostname": "n7"}
    return json.dumps({"timestamp": SECONDS, "value": value, "name": name, "labels": labels}, indent=indent).encode()


def take(*values: bytes, bytes_maximum: int = 10_000) -> Any:
    reader = reader_of("metrics", "hotspare.", {"metrics": prometheus_json.NAME}, bytes_maximum)
    assert reader is not None
    return reader.take(0, [record(at, value) for at, value in enumerate(values)])


@pytest.mark.parametrize("indent", [None, 1])
def test_samples_of_many_messages_become_one_row(indent: int | None) -> None:
    intake = take(
        sample("GPU_TEMP", "45", indent), sample("POWER_USAGE", "650", indent), sample("GPU_UTIL", "9", indent)
    )
    assert intake.quarantined.is_empty()
    rows = intake.tables["gpu"]
    assert rows.select("node", "gpu", "temperature_celsius", "power_watts", "utilization_percent").rows() == [
        ("n7", 3, 45.0, 650.0, 9.0)
    ]


def test_a_bad_message_is_named_by_its_offset_and_the_others_are_taken() -> None:
    intake = take(sample("GPU_TEMP", "45"), b"{nonsense", sample("GPU_UTIL", "9"))
    assert intake.quarantined.select("offset", "raw").rows() == [(1, b"{nonsense")]
    assert intake.tables["gpu"]["temperature_celsius"].drop_nulls().to_list() == [45.0]
    assert intake.tables["gpu"]["utilization_percent"].drop_nulls().to_list() == [9.0]


def test_a_message_over_the_limit_costs_itself() -> None:
    intake = take(sample("GPU_TEMP", "45"), sample("GPU_UTIL", "9") + b" " * 500, bytes_maximum=400)
    assert intake.quarantined["offset"].to_list() == [1]
    assert intake.tables["gpu"].height == 1
