"""A host with a slow clock on a real broker: its rows come late and it is not lost. And what people did, beside it."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from detectors.job.heartbeat import MissedHeartbeats
from schemas.topology import topology_from_frames
from tests.kafka.broker import Broker
from tests.kafka.streaming import frames, incidents, kafka_source, place, produce, run

pytestmark = pytest.mark.kafka
BEGAN = datetime(2026, 5, 1, 8, tzinfo=UTC)
NODES = tuple(f"n{number}" for number in range(8))


def beats(seconds: int, *, slow: str, slow_seconds: int, lost: str, lost_at: int) -> Iterator[dict[str, Any]]:
    """Messages of a rank each, with the time at which they are written: 100 ms after the beat by a right clock."""
    for second in range(seconds):
        now = BEGAN + timedelta(seconds=second)
        for node in NODES:
            if node == lost and second >= lost_at:
                continue
            time = now - timedelta(seconds=slow_seconds if node == slow else 0)
            beat = {"time": time.isoformat(), "node": node, "gpu": 0, "job": "j", "rank": int(node[1:]), "step": second}
            written = int((now + timedelta(milliseconds=100)).timestamp() * 1000)
            yield {"value": json.dumps(beat).encode(), "key": b"pod", "timestamp_ms": written}


def test_a_host_with_a_slow_clock_is_not_lost_and_its_lag_is_kept(broker: Broker, tmp_path: Path) -> None:
    there = place(broker, tmp_path / "in", partitions=1)
    produce(there.kafka, "heartbeat", beats(40, slow="n3", slow_seconds=31, lost="n5", lost_at=20))
    deploy = {"time": BEGAN.isoformat(), "kind": "deploy", "title": "trainer 2.3", "touches": ["n5", "pdu=p1"]}
    produce(there.kafka, "outside_event", [json.dumps(deploy).encode(), json.dumps(deploy | {"kind": ""}).encode()])
    topology = topology_from_frames("t", pl.DataFrame({"node": NODES}), pl.DataFrame(), gpus_per_node=1)
    run(kafka_source(there.kafka, topology, batch=50), there.folder, (MissedHeartbeats(),))
    assert [(cause, roots) for _, cause, roots, *_ in incidents(there.folder)] == [("node_lost", ("n5",))]
    lags = there.store.lags(BEGAN, BEGAN + timedelta(minutes=2))
    assert {node: lag.total_seconds() for node, lag in lags.items()} == {"n3": 31.0}
    events = frames(there.folder, "select title, touches from outside_event")
    assert events.rows() == [("trainer 2.3", ["n5", "pdu=p1"])]
    assert frames(there.folder, "select rule from quarantine")["rule"].to_list() == ["kind|min_length"]
