"""What the first description of the cluster says of itself, number by number, to be compared with its own arithmetic.

Only claims that can be computed from other numbers, or that published figures of the parts contradict, are here.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ClusterClaims:
    """Every number as claimed, right or wrong; the validator computes what it ought to be."""

    # Fabric
    switch_model: str = "QM8790"
    switches: int = 1_300
    cables: int = 100_000
    bisection_gbps: float = 5_500_000.0
    pod_oversubscription: float = 3.0
    cluster_oversubscription: float = 1.0
    nvlink_links_per_gpu: int = 7
    network_to_nvlink_ratio: float = 7.0
    cable_match_meters: float = 0.02
    connector_loss_rejected_db: float = 0.5
    # Power
    power_megawatts: float = 25.0
    introduction_power_megawatts: float = 50.0
    gpus_per_pdu: int = 256
    cascade_pdus: int = 3
    cascade_gpus: int = 384
    power_loss_detection_milliseconds: float = 2.0
    cascade_checkpoint_milliseconds: float = 50.0
    # Cooling
    glycol_percent: float = 60.0
    supply_celsius: float = 45.0
    return_celsius: float = 55.0
    flow_gallons_per_minute_per_gpu: float = 2.5
    flow_liters_per_minute: float = 6_000.0
    loop_volume_liters: float = 500.0
    ride_through_seconds: float = 90.0
    ride_through_kelvin: float = 20.0
    throttle_celsius: float = 85.0
    valve_period_milliseconds: float = 20.0
    # Failures and recovery
    gpu_failures_percent_per_day: float = 0.1
    failures_per_day_ranges: tuple[tuple[float, float], ...] = ((24, 30), (10, 50), (70, 100), (10_000, 10_000))
    mean_minutes_between_failures: float = 20.0
    recovery_seconds: float = 8.0
    missed_acknowledgements: int = 3
    checkpoint_interval_minutes: float = 5.0
    checkpoint_overhead_percent: float = 2.1
    five_minutes_dollars: float = 3_000.0
    cascade_minutes: float = 4.0
    cascade_dollars: float = 7_600.0
