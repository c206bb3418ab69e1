"""Timelines of power and coolant. Gauges are read once a second, each at its own moment of it: a sample shows a fault
up to 1 s late. Terms of a sum are, in this order, when it shows, how long a mean takes to follow, and how long it must
last (docs/detectors.md has the formulas).
"""

from tests.pipelines.timelines.derived import (
    exchanger_fouled,
    flow_lost,
    level_lost,
    mean_noise,
    meter_told,
    plate_clogged,
    span,
)
from tests.pipelines.timelines.form import At, Between, Do, Timeline, Told, ticket

POWER: dict[str, Timeline] = {
    # Above the circuit's rating for 60 s.
    "breaker_overload": (
        Told(
            Between(180 + 60, 181 + 60), "breaker_overloaded", ("pdu-001",), 0,
            (Do("cap_power", "pdu-001", by=5), *ticket("pdu-001")),
        ),
    ),
    # The meters' last words name the loss in the second that it happens; the checkpoint is for 30 s of the survivors'
    # time. There is no spare, so the shards go onto GPUs that are reclaimed.
    "pdu_cascade": (
        Told(
            Between(180, 181), "power_domain_lost", ("pdu-000", "pdu-001", "pdu-002"), 384,
            (
                Do("global_checkpoint", "ndr-fat-tree", by=30),
                *(Do("allocate_spare", f"pdu-00{pdu}", by=5, outcome="refused") for pdu in range(3)),
                Do("reclaim_gpus", "ndr-fat-tree", by=60),
                *(Do("restore_shard", f"pdu-00{pdu}", by=5 + 30) for pdu in range(3)),
                *(Do("resume", f"pdu-00{pdu}", by=5 + 30 + 5) for pdu in range(3)),
                *ticket("pdu-000", "pdu-001", "pdu-002"),
            ),
        ),
    ),
    # The lowest half-cycle is in the first sample. 85 % for 5 s is what supplies ride through: over 5 s later, and
    # resolved when 30 s of normal voltage have passed.
    "power_sag": (
        Told(
            Between(180, 181), "power_sag", ("pdu-001",), 0, (Do("cap_power", "pdu-001", by=5), *ticket("pdu-001")),
            over=Between(185 + 30, 186 + 30),
        ),
    ),
}  # fmt: skip

# Checkpoints are begun 6 s before the job says that they are there (job_event): at 144 and 443 s in cold_plate_clogged,
# at 175 s in exchanger_fouled, at 145, 449 and 748 s in flow_meter_drift.
#
# Flow to 0.75 and conduction by 1.1 in 120 s are 18.6 % more resistance. Whole degrees and 0.25 K of noise are 1.3 % of
# 30 K a sample: 0.5 % of a mean of 30 s, 0.3 % of a normal of 19 and 0.26 % of a median of eight, 0.64 % in all.
CLOGGED = span(lambda drift: plate_clogged(drift, begins=180, lasts=120, pauses=(144, 443)), 0.1, 3 * 0.0064)
# 1.5 % of a gauge of 0.05 %, at 2 % a minute.
LOST = span(
    lambda lost: level_lost(lost, begins=180, percent_per_second=2 / 60), 1.5, 3 * mean_noise(0.05, 1, 10)
)  # fmt: skip
PAGED = Between(LOST[0] - 1 + 1 - 201, LOST[1] + 1 - 201)  # one gauge tells both, each a second after it first shows
# What is left of 1.5 % more, from how far a sample lies below a mean of 10 s: 0.05 % in 10 s are 0.3 % a minute.
RUNS_OUT = (60 * 1.5 / (2 + 3 * 0.3), 60 * 1.5 / (2 - 3 * 0.3))
# Conductance falls to 60 % in 60 s. Four gauges of 0.04 K and 0.4 % of flow: means of 60 s tell the ratio to 0.3 %.
FOULED = span(
    lambda risen: exchanger_fouled(risen, begins=180, lasts=60, left=0.6, pauses=(175,)), 0.25, 3 * 0.0033
)  # fmt: skip
# 20 % in 120 s, with a checkpoint at 449 s that is seen at 450 s: not until 530 s has power been steady for 60 s again.
METER = span(lambda off: meter_told(off, begins=300, lasts=120, shows=0.8, pauses=(145, 449, 748)), 0.1, 0.01)
# Flow falls by 30 % in 60 s, read to 0.4 %.
CHOKED = span(
    lambda share: flow_lost(share, begins=180, share_per_second=0.3 / 60), 0.1, 3 * mean_noise(0.004, 1, 5)
)  # fmt: skip

COOLANT: dict[str, Timeline] = {
    # Looked at when the first second of every 10 s is over, and 60 s of it are a ticket.
    "cold_plate_clogged": (
        Told(
            Between(CLOGGED[0] + 1 + 60, CLOGGED[1] + 1 + 60), "cold_plate_clogged", ("n00003/1",), 0,
            (Do("raise_flow", "n00003/1", by=5), *ticket("n00003/1")),
        ),
    ),
    # Tremor grows over 20 s and is a mean over 20 s; 15 s above three times its normal are a ticket.
    "coolant_air": (
        Told(Between(180 + 15, 200 + 20 + 15), "coolant_air", ("cdu-00",), 0, ticket("cdu-00")),
    ),
    # The rope warns 20 s in; a sign that lasts 1 s is stated, and is a ticket. The level is the second sign. 32 GPUs
    # are one stage of 2 s, and a checkpoint takes 20 s.
    "coolant_leak": (
        Told(
            Between(200 + 1, 201 + 1), "coolant_leak", ("cdu-01",), 0,
            (
                *ticket("cdu-01"),
                Do("cap_power", "cdu-01", by=5, asked=PAGED),
                Do("global_checkpoint", "ndr-fat-tree", by=Between(*(s - 2 - 20 for s in RUNS_OUT)), asked=PAGED),
                Do("staged_shutdown", "cdu-01", by=Between(*(s - 2 for s in RUNS_OUT)), asked=PAGED),
                Do("isolate_loop", "cdu-01", by=Between(*RUNS_OUT), asked=PAGED),
            ),
        ),
    ),
    # pH falls by 1.8 in 60 s: from the 8.97 that this loop has it is 8 at 212.2 s. A mean over 10 s is 9.6 s behind by
    # then, and conductivity later (20 % at 220 s). 30 s are a ticket.
    "coolant_spoiled": (
        Told(Between(221 + 30, 223 + 30), "coolant_chemistry", ("cdu-01",), 0, ticket("cdu-01")),
    ),
    # 25 % more for 60 s are a ticket.
    "exchanger_fouled": (
        Told(Between(FOULED[0] + 60, FOULED[1] + 1 + 60), "heat_exchanger_fouled", ("cdu-00",), 0, ticket("cdu-00")),
    ),
    # 10 % less flow are 28 % more head. 5 s of it are stated.
    "filter_clogged": (
        Told(
            Between(CHOKED[0] + 5, CHOKED[1] + 1 + 5), "coolant_flow_restricted", ("cdu-01",), 0,
            (Do("raise_flow", "cdu-01", by=5), Do("cap_power", "cdu-01", by=5 + 30 + 5), *ticket("cdu-01")),
        ),
    ),
    # GPUs are read every 5 s, so that the first sample of 10 s is there 5 s in; 3 s for a cause above it.
    "flow_meter_drift": (
        Told(
            Between(METER[0] + 5 + 3, METER[1] + 5 + 3), "telemetry_implausible", ("coolant_loop:cdu-01",), 0,
            ticket("coolant_loop:cdu-01"),
        ),
    ),
    # Both pumps of the loop stop: the second sample that says so states it. A GPU at full load stands at 65 degrees,
    # and 700 W on 510 J/K are 1.37 K/s: 95 degrees are 22 s away without flow, and 27 s with the 5 % that stay (some
    # heat still goes). 64 GPUs are one stage of 2 s; the first sample came up to 1 s earlier.
    "pump_failure": (
        Told(
            Between(180, 183), "coolant_pump_failure", ("cdu-01",), 64,
            (
                Do("raise_flow", "cdu-01", by=5),
                Do("cap_power", "cdu-01", by=5),
                Do("global_checkpoint", "ndr-fat-tree", by=Between(22 - 2 - 20 - 1, 27 - 2 - 20 + 1)),
                Do("staged_shutdown", "cdu-01", by=Between(22 - 2 - 1, 27 - 2 + 1)),
                *ticket("cdu-01"),
            ),
        ),
    ),
    # Power falls at 240 s and the other valves close with it within 20 s; looked at every 10 s, 30 s of it are stated.
    "valve_not_following": (
        Told(
            Between(240 + 30, 260 + 10 + 30), "valve_stuck", ("n00006/2",), 0,
            (Do("cap_power", "n00006/2", by=5), *ticket("n00006/2")),
        ),
    ),
    # It closes by half at once, is seen when the first second of these 10 s is over, and 30 s of it are stated.
    "valve_stuck": (
        Told(
            At(180 + 1 + 30), "valve_stuck", ("n00002/5",), 0,
            (Do("cap_power", "n00002/5", by=5), *ticket("n00002/5")),
        ),
    ),
}  # fmt: skip
