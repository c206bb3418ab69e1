"""What the peer baselines share: the same rows of GPUs, and how what they find becomes findings."""

import polars as pl

from detectors.contract import evidence, findings_frame
from detectors.levels import LEVEL_COLUMNS

METRICS = (
    "temperature_celsius",
    "memory_temperature_celsius",
    "power_watts",
    "sm_clock_megahertz",
    "utilization_percent",
)
MAD_TO_DEVIATION = 1.4826
# Below these a difference between GPUs is noise whatever its spread: reading resolution.
FLOORS = {
    "temperature_celsius": 1.0, "memory_temperature_celsius": 1.0, "power_watts": 5.0, "sm_clock_megahertz": 15.0,
    "utilization_percent": 2.0,
}  # fmt: skip


def samples_of(gpu: pl.DataFrame) -> pl.DataFrame:
    """entity, time, tick (the second that all GPUs of one scrape share) and METRICS, without rows that lack one."""
    return gpu.select(
        "time", *(pl.col(name).cast(pl.Float64) for name in METRICS),
        entity=pl.concat_str("node", pl.lit("/"), "gpu"), tick=pl.col("time").dt.truncate("1s"),
    ).drop_nulls()  # fmt: skip


def robust_z(samples: pl.DataFrame) -> pl.DataFrame:
    """With one column z_<metric> each: distance from the median of all GPUs at that tick, in robust deviations."""
    away = {name: (pl.col(name) - pl.col(name).median().over("tick")).abs() for name in METRICS}
    return samples.with_columns(
        (away[name] / pl.max_horizontal(MAD_TO_DEVIATION * away[name].median().over("tick"), pl.lit(FLOORS[name])))
        .alias(f"z_{name}")
        for name in METRICS
    )  # fmt: skip


def statements(changes: pl.DataFrame, name: str, threshold: float) -> pl.DataFrame:
    """changes: entity, time, active, first_bad_at, score, metric (which led). All are pages."""
    rows = changes.with_columns(
        evidence("metric", "score"), code=pl.col("metric"), severity=pl.lit("page"), action=pl.lit("drain_node"),
        threshold=pl.lit(threshold),
    )  # fmt: skip
    # they find a GPU that is unlike the others and know no causes, so all say the same one
    return findings_frame(rows, name, "gpu_straggler", "gpu")


def kept(state: pl.DataFrame, rule: str) -> pl.DataFrame:
    return state.filter(pl.col("rule") == rule)


STATE = pl.Schema(
    {**LEVEL_COLUMNS, "rule": pl.String(), "tick": LEVEL_COLUMNS["time"], **dict.fromkeys(METRICS, pl.Float64())}
)


def state_of(levels: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Levels and remembered samples as one frame."""
    together = [levels.with_columns(rule=pl.lit("level")), rows.with_columns(rule=pl.lit("row"))]
    return pl.concat([pl.DataFrame(schema=STATE), *together], how="diagonal").select(STATE.names())
