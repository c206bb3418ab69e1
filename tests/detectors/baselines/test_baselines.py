"""The yardsticks find what they are known to find, or the comparison would be with straw."""

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest

from detectors.baselines.forest import Forest
from detectors.baselines.peer_distance import PeerDistance
from detectors.baselines.robust_z import RobustZ
from detectors.contract import Context
from schemas.admission import admit
from schemas.gpu import Gpu
from schemas.tables import TABLE_BY_NAME
from schemas.topology_presets import build

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
ODD, ODD_FROM_SECONDS, EVERY_SECONDS, SECONDS = "n3", 360, 5, 900


def gpus(odd_celsius: float) -> pl.DataFrame:
    """Sixteen GPUs, one each on sixteen nodes; one of them is hotter and slower from ODD_FROM_SECONDS on."""
    rng = np.random.default_rng(2)
    frames = []
    for second in range(0, SECONDS, EVERY_SECONDS):
        odd = odd_celsius * (second >= ODD_FROM_SECONDS) * (np.arange(16) == 3)
        frames.append(
            pl.DataFrame(
                {
                    "time": [BEGAN + timedelta(seconds=second)] * 16,
                    "node": [f"n{number}" for number in range(16)],
                    "gpu": 0,
                    "temperature_celsius": rng.normal(60.0, 1.0, 16) + odd,
                    "memory_temperature_celsius": rng.normal(70, 1, 16) + odd,
                    "power_watts": rng.normal(680, 5, 16),
                    "sm_clock_megahertz": rng.normal(1900, 15, 16) - 20 * odd,
                    "utilization_percent": rng.normal(97, 1, 16),
                }
            )
        )
    return admit(TABLE_BY_NAME["gpu"], pl.concat(frames)).rows


def said(detector, rows: pl.DataFrame) -> pl.DataFrame:
    """What it finds when rows come minute by minute."""
    topology = build("ndr-fat-tree", pods=1, superblocks_per_pod=1, nodes_per_superblock=4, nodes_per_leaf=4)
    state, findings = pl.DataFrame(schema=detector.keeps), []
    for minute in range(SECONDS // 60):
        begin, end = BEGAN + timedelta(minutes=minute), BEGAN + timedelta(minutes=minute + 1)
        part = rows.filter((pl.col("time") >= begin) & (pl.col("time") < end))
        detection = detector.detect({Gpu: part}, state, Context(now=end, began=BEGAN, topology=topology))
        state = detection.state
        findings.append(detection.findings)
    return pl.concat(findings).filter("active")


@pytest.mark.parametrize(
    ("detector", "seconds"), [(RobustZ(), 45), (Forest(), 60), (PeerDistance(), 360)], ids=["z", "forest", "peers"]
)
def test_a_gpu_that_is_much_hotter_than_its_peers_is_found_first_and_in_time(detector, seconds):
    found = said(detector, gpus(15.0)).sort("time")
    assert found["entity"][0] == f"{ODD}/0"
    onset = BEGAN + timedelta(seconds=ODD_FROM_SECONDS)
    assert timedelta(0) < found["time"][0] - onset <= timedelta(seconds=seconds)


@pytest.mark.parametrize("detector", [RobustZ(), PeerDistance()], ids=["z", "peers"])
def test_gpus_that_are_alike_are_left_in_peace(detector):
    assert said(detector, gpus(0.0)).is_empty()
