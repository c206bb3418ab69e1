"""Timelines of power and coolant. Gauges are read once a second, each at its own moment of it: a sample shows a fault
up to 1 s late. Terms of a sum are, in this order, when it shows, how long a mean takes to follow, and how long it must
last (docs/detectors.md has the formulas).
"""

from tests.pipelines.timelines.form import Between, Do, Timeline, Told, ticket

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

COOLANT: dict[str, Timeline] = {
    # Flow to 0.75 and conduction by 1.1 in 120 s are 18.6 % more resistance (effectiveness 1 - exp(-NTU)). Through the
    # plate's 22 s and a mean of 30 s it is 10 % up at 297 s; over a normal that has learnt 2 % of it, at 314 s. Looked
    # at every 10 s, and 60 s of that are a ticket.
    "cold_plate_clogged": (
        Told(
            Between(297 + 60, 314 + 10 + 60), "cold_plate_clogged", ("n00003/1",), 0,
            (Do("raise_flow", "n00003/1", by=5), *ticket("n00003/1")),
        ),
    ),
    # Tremor grows over 20 s and is a mean over 20 s; 15 s above three times its normal are a ticket.
    "coolant_air": (
        Told(Between(180 + 15, 200 + 20 + 15), "coolant_air", ("cdu-00",), 0, ticket("cdu-00")),
    ),
    # The rope warns 20 s in; a sign that lasts 1 s is stated.
    "coolant_leak": (
        Told(
            Between(200 + 1, 201 + 1), "coolant_leak", ("cdu-01",), 0,
            (Do("cap_power", "cdu-01", by=5), Do("isolate_loop", "cdu-01"), *ticket("cdu-01")),
        ),
    ),
    # Conductivity grows by 30 % in 60 s and passes 20 % at 220 s; a mean over 10 s follows, and 30 s are a ticket.
    "coolant_spoiled": (
        Told(Between(220 + 30, 221 + 10 + 30), "coolant_chemistry", ("cdu-01",), 0, ticket("cdu-01")),
    ),
    # Conductance falls to 60 % in 60 s, so the approach grows to 1 / 0.6; through the loop and the mean, 60 s each, it
    # is 25 % up at 293 s, 10 s for a loop that is no exact 60 s; 60 s of it are a ticket.
    "exchanger_fouled": (
        Told(Between(293 - 10 + 60, 293 + 10 + 60), "heat_exchanger_fouled", ("cdu-00",), 0, ticket("cdu-00")),
    ),
    # Flow falls by 30 % in 60 s: 10 % at 200 s, 25 % at 230 s. A mean over 5 s follows, and 5 s of it are stated.
    "filter_clogged": (
        Told(
            Between(200 + 5, 231 + 5 + 5), "coolant_flow_restricted", ("cdu-01",), 0,
            (Do("raise_flow", "cdu-01", by=5), Do("cap_power", "cdu-01", by=5 + 30 + 5), *ticket("cdu-01")),
        ),
    ),
    # 20 % in 120 s, through a mean of 60 s, are 10 % at 411 s; looked at every 10 s, and 60 s of it are a ticket. A
    # checkpoint's pause (6 s at a fifth of the power are 14 % of a mean over 30 s, and 5 % of it 32 s later) is
    # followed by 60 s in which nothing is judged.
    "flow_meter_drift": (
        Told(
            Between(411 + 60, 411 + 10 + 60 + 6 + 32 + 60), "telemetry_implausible", ("coolant_loop:cdu-01",), 0,
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
    # It closes by half at once.
    "valve_stuck": (
        Told(
            Between(180 + 30, 190 + 10 + 30), "valve_stuck", ("n00002/5",), 0,
            (Do("cap_power", "n00002/5", by=5), *ticket("n00002/5")),
        ),
    ),
}  # fmt: skip
