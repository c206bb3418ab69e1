"""What is in the messages: every shape of the wire format gives the same rows, and what is none is named exactly."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipelines.sources.kafka import KafkaSource
from schemas.formats.wire_arrow import encode_arrow
from tests.kafka.broker import Broker
from tests.kafka.streaming import kafka_source, place, produce, run
from tests.pipelines.telemetry_rows import DETECTORS, at, gpu_row, gpu_rows, topology

pytestmark = pytest.mark.kafka
CORPUS = Path(__file__).parents[2].parent / "shared" / "corpus" / "otdr"
MICROSECONDS = int(at(0).timestamp() * 1_000_000)


def gpu_message(second: int = 0, **columns: Any) -> bytes:
    return msgspec.json.encode({"time": MICROSECONDS + 1_000_000 * second, "node": "n00000", "gpu": 0, **columns})


def read(source: KafkaSource) -> tuple[dict[str, pl.DataFrame], pl.DataFrame]:
    """All rows by table, and all of the quarantine."""
    arrivals = list(source.arrivals({}))
    names = {name for arrival in arrivals for name in arrival.batch.tables}
    tables = {
        name: pl.concat([arrival.batch.tables[name] for arrival in arrivals if name in arrival.batch.tables])
        for name in names
    }
    return tables, pl.concat([arrival.batch.quarantined for arrival in arrivals])


HUGE = b'{"node": "' + b"x" * 70_000 + b'"}'
BAD: dict[str, tuple[Any, str]] = {
    "truncated": (b'{"time": 17', "message|json"),
    "binary": (b"\x00\x9f\x92\x96" * 8, "message|json"),
    "wrong encoding": ('{"node": "ü"}'.encode("utf-16"), "message|json"),
    "empty": (b"", "message|json"),
    "tombstone": (None, "message|json"),
    "a list": (b"[1, 2]", "message|object"),
    "nothing known": (b'{"voltage": 3}', "time|nullability"),
    "a word for a number": (gpu_message(temperature_celsius="warm"), "temperature_celsius|type"),
    "NaN": (gpu_message()[:-1] + b', "temperature_celsius": NaN}', "message|json"),
    "out of range": (gpu_message(temperature_celsius=2000.0), "temperature_celsius|max"),
    "no time": (b'{"node": "n00000", "gpu": 1}', "time|nullability"),
    "lists of two lengths": (gpu_message(uuid=["a", "b"], temperature_celsius=[1.0]), "message|lengths"),
    "nested too deep": (b"[" * 5000, "message|json"),
    "far future": (
        msgspec.json.encode({"time": "2199-01-01T00:00:00Z", "node": "n00000", "gpu": 0}), "time|future",
    ),
    "arrow garbage": (b"\xff\xff\xff\xff" + bytes(range(200)), "message|unreadable"),
    "arrow cut short": (encode_arrow(gpu_rows(gpu_row(0)))[:-40], "message|unreadable"),
}  # fmt: skip


@pytest.mark.parametrize("partitions", [1, 3])
def test_each_bad_message_is_named_by_its_own_offset_and_the_good_ones_are_kept(
    broker: Broker, tmp_path: Path, partitions: int
) -> None:
    there = place(broker, tmp_path, partitions=partitions)
    messages: list[Mapping[str, Any]] = []
    for number, (value, _) in enumerate(BAD.values()):
        messages += [{"value": gpu_message(2 * number)}, {"value": value}, {"value": gpu_message(2 * number + 1)}]

    produce(there.kafka, "gpu", [{"partition": n % partitions, "key": b"pod", **one} for n, one in enumerate(messages)])
    tables, quarantined = read(kafka_source(there.kafka, topology()))
    assert sorted(tables["gpu"]["time"].to_list()) == [at(second) for second in range(2 * len(BAD))]
    where = {(row["partition"], row["offset"]): row for row in quarantined.to_dicts() if row["topic"].endswith(".gpu")}
    assert len(where) == quarantined.height == len(BAD)
    for number, (name, (value, rule)) in enumerate(BAD.items()):
        position = 3 * number + 1
        row = where[position % partitions, position // partitions]
        assert row["table"] == "gpu", name
        assert row["reason"], name
        assert row["rule"] == rule, (name, row)
        assert row["raw"] == (value or b"")[:4096], name


def test_a_message_over_the_limit_is_refused_and_the_next_one_is_read(broker: Broker, tmp_path: Path) -> None:
    there = place(broker, tmp_path, partitions=1)
    arrow = encode_arrow(gpu_rows(*(gpu_row(second) for second in range(1000))))
    assert len(arrow) > 60_000
    produce(there.kafka, "gpu", [HUGE, arrow, gpu_message()])
    source = kafka_source(there.kafka, topology(), message_bytes_maximum=60_000)
    tables, quarantined = read(source)
    assert tables["gpu"].height == 1
    assert quarantined["offset"].to_list() == [0, 1]
    assert all("over the limit of 60000" in reason for reason in quarantined["reason"])
    assert quarantined["raw"][0] == HUGE[:4096]


def test_unknown_columns_are_ignored_and_counted(broker: Broker, tmp_path: Path) -> None:
    there = place(broker, tmp_path, partitions=1)
    produce(there.kafka, "gpu", [gpu_message(0, flavour="strange"), gpu_message(1)])
    tally = run(kafka_source(there.kafka, topology()), tmp_path, DETECTORS)
    assert tally.rows["gpu"] == 2
    assert set(tally.ignored) == {"gpu.flavour"}
    assert tally.quarantined == 0


def superblock() -> pl.DataFrame:
    return gpu_rows(
        *(
            gpu_row(second, node, gpu, 60.0 + gpu)
            for second in (0, 1)
            for node in ("n00000", "n00001")
            for gpu in range(8)
        )
    )


def test_one_gpu_one_node_or_a_superblock_a_message_and_arrow_are_the_same_rows(broker: Broker, tmp_path: Path) -> None:
    frame = superblock()
    stamped = frame.with_columns(pl.col("time").dt.to_string("iso:strict")).select(
        "time", "node", "gpu", "temperature_celsius"
    )

    def messages(*keys: str) -> list[bytes]:
        groups = stamped.group_by(keys, maintain_order=True).agg(pl.all())
        return [msgspec.json.encode(row) for row in groups.to_dicts()]

    shapes = {
        "per gpu": [msgspec.json.encode(row) for row in stamped.to_dicts()],
        "per node": messages("time", "node"),
        "per superblock": messages("time"),
        "arrow": [encode_arrow(part) for part in frame.partition_by("time", maintain_order=True)],
        "arrow file": [_arrow_file(frame)],
    }
    order = ["time", "node", "gpu"]
    for number, (name, values) in enumerate(shapes.items()):
        there = place(broker, tmp_path / str(number), partitions=1)
        produce(there.kafka, "gpu", values)
        tables, quarantined = read(kafka_source(there.kafka, topology()))
        assert quarantined.is_empty(), name
        assert_frame_equal(tables["gpu"].sort(order), frame.sort(order))


def _arrow_file(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_ipc(buffer, compression="uncompressed", compat_level=pl.CompatLevel.oldest())
    return buffer.getvalue()


def test_json_and_arrow_keep_their_order_within_a_partition(broker: Broker, tmp_path: Path) -> None:
    there = place(broker, tmp_path, partitions=1)
    produce(
        there.kafka, "gpu",
        [gpu_message(0), encode_arrow(gpu_rows(gpu_row(10))), gpu_message(20), encode_arrow(gpu_rows(gpu_row(30)))],
    )  # fmt: skip
    tables, _ = read(kafka_source(there.kafka, topology()))
    assert tables["gpu"]["time"].to_list() == [at(0), at(10), at(20), at(30)]


@pytest.mark.parametrize("compression", [None, "gzip", "lz4", "zstd"])
def test_every_compression_is_read(broker: Broker, tmp_path: Path, compression: str | None) -> None:
    there = place(broker, tmp_path, partitions=1)
    produce(
        there.kafka, "gpu", [gpu_message(second) for second in range(200)], compression_type=compression, linger_ms=50
    )
    tables, quarantined = read(kafka_source(there.kafka, topology()))
    assert (tables["gpu"].height, quarantined.height) == (200, 0)


def test_maintenance_that_is_announced_long_before_does_not_carry_time_away(broker: Broker, tmp_path: Path) -> None:
    there = place(broker, tmp_path, partitions=1)
    later = MICROSECONDS + 400 * 86_400_000_000
    window = {"starts_at": later, "kind": "node", "id": "n00001", "reason": "move", "announced_at": MICROSECONDS}
    produce(there.kafka, "maintenance", [msgspec.json.encode(window)])
    produce(there.kafka, "gpu", [gpu_message(5)])
    arrivals = list(kafka_source(there.kafka, topology()).arrivals({}))
    assert pl.concat([arrival.batch.quarantined for arrival in arrivals]).is_empty()
    assert arrivals[-1].batch.now == at(4)
    assert sum(arrival.batch.tables.get("maintenance", pl.DataFrame()).height for arrival in arrivals) == 1


def test_otdr_files_come_with_cable_and_direction(broker: Broker, tmp_path: Path) -> None:
    files = sorted(CORPUS.rglob("*.sor"))
    if not files:
        pytest.skip(f"no .sor files in {CORPUS}")
    there = place(broker, tmp_path, partitions=1)
    content = files[0].read_bytes()
    headers = [("cable", b"c000042"), ("direction", b"BA")]

    produce(there.kafka, "otdr", [{"value": content, "headers": headers}, {"value": content[:300], "headers": headers}])
    tables, quarantined = read(kafka_source(there.kafka, topology()))
    assert tables["otdr_trace"].select("cable", "direction").rows() == [("c000042", "BA")]
    assert tables["otdr_event"].height > 0
    assert quarantined.select("offset", "rule").rows() == [(1, "message|unreadable")]
    assert quarantined["raw"][0] == content[:300]
