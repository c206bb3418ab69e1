"""Processor seconds that correlation (one thread of Python) takes for storms.

Run: python -m tests.benchmarks.bench_correlate
Goal (issue 5): ten thousand findings in a second from one domain become one incident in under 200 ms.
"""

import gc
import random
import statistics
import time
from datetime import UTC, datetime, timedelta

import polars as pl

from detectors.contract import FINDING_COLUMNS, Context
from detectors.correlate import correlate
from detectors.correlation_state import Correlation, decode, encode
from schemas.causes import CAUSE_BY_NAME
from schemas.topology import Topology, topology_from_frames

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
RUNS = 5
NODES = 3072  # 24,576 GPUs


def cluster(nodes_per_pdu: int) -> Topology:
    nodes = [
        {"node": f"n{n:05}", "superblock": f"sb{n // 32}", "pod": f"pod{n // 128}", "pdu": f"pdu{n // nodes_per_pdu}",
         "cdu": f"cdu{n // 32}", "rack": f"r{n // 4}"}
        for n in range(NODES)
    ]  # fmt: skip
    links = [
        {"cable": f"c{n}-{hca}", "a": f"n{n:05}/hca{hca}", "a_port": 1, "b": f"leaf{n // 32}-{hca}", "b_port": n % 32}
        for n in range(NODES)
        for hca in range(8)
    ]
    return topology_from_frames("bench", pl.DataFrame(nodes), pl.DataFrame(links))


def frame(said: list[tuple[float, str, str]]) -> pl.DataFrame:
    rows = [
        {
            "time": NOON + timedelta(seconds=at), "detector": f"bench.{cause}", "cause": cause,
            "kind": CAUSE_BY_NAME[cause].kind, "entity": entity, "active": True, "code": "storm", "score": 2.0,
            "severity": CAUSE_BY_NAME[cause].severity, "threshold": 1.0, "first_bad_at": NOON + timedelta(seconds=at),
            "evidence": '{"job": "llm", "beats_missed": 3, "peers_missed": 0}', "action": "drain_node",
        }
        for at, cause, entity in said
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=FINDING_COLUMNS).sort("time")


def domain_storm(nodes: int, root_at: float) -> pl.DataFrame:
    """One PDU lost, and all that its nodes, GPUs, links and sources say within the second: 10,000 statements."""
    chance = random.Random(1)
    names = [f"n{n:05}" for n in range(nodes)]
    gpus = [
        (cause, f"{node}/{slot}") for node in names for slot in range(8) for cause in ("gpu_hang", "gpu_fallen_off_bus")
    ]
    links = [("link_down", f"c{n}-{hca}") for n in range(nodes) for hca in range(8)]
    sources = [
        ("telemetry_stale", f"{table}:{node}") for node in names for table in ("gpu", "fabric_port", "cold_plate")
    ]
    every = [*(("node_lost", node) for node in names), *gpus, *links, *sources]
    said = [(0.1 + 0.8 * chance.random(), *every[place % len(every)]) for place in range(9_999)]
    return frame([(root_at, "power_domain_lost", "pdu0"), *said])


def collector_storm() -> pl.DataFrame:
    """No domain at all: the collector of one table is gone, and every source of it falls silent."""
    tables = ("gpu", "fabric_port", "cold_plate", "optic")
    return frame([(0.5, "telemetry_stale", f"{table}:n{n:05}") for table in tables for n in range(2_500)])


def measure(name: str, findings: pl.DataFrame, topology: Topology) -> None:
    def step(said: pl.DataFrame, state: Correlation, at: float) -> tuple[float, int, Correlation]:
        began = time.process_time()
        incidents, after = correlate(
            said, state, Context(now=NOON + timedelta(seconds=at), began=NOON, topology=topology)
        )
        return time.process_time() - began, len(incidents), after

    runs = [step(findings, Correlation(), 5.0) for _ in range(RUNS)]
    state = runs[0][2]
    idle = [step(findings.clear(), state, 5.1)[0] for _ in range(RUNS)]
    began = time.process_time()
    stored = encode(state)
    decode(stored)
    round_trip = time.process_time() - began
    milliseconds = 1000 * statistics.median(run[0] for run in runs)
    print(  # noqa: T201 - a benchmark's output
        f"{name:42} {findings.height:6} findings {runs[0][1]} incidents {milliseconds:7.1f} ms;"
        f" next step {1000 * statistics.median(idle):5.1f} ms; state {len(stored) / 1e6:.2f} MB,"
        f" stored and loaded in {1000 * round_trip:.1f} ms"
    )


def main() -> None:
    domain, wide = cluster(16), cluster(384)
    gc.collect()
    gc.freeze()  # as serve does when it begins
    measure("PDU of 128 GPUs, root first", domain_storm(16, 0.05), domain)
    measure("PDU of 128 GPUs, root last", domain_storm(16, 0.95), domain)
    measure("PDU of 3,072 GPUs, root first", domain_storm(384, 0.05), wide)
    measure("PDU of 3,072 GPUs, root last", domain_storm(384, 0.95), wide)
    measure("collector gone, 10,000 silent sources", collector_storm(), domain)


if __name__ == "__main__":
    main()
