"""The timeline of the demo's day: a pod of 1,024 GPUs and eight spares. GPUs and plates are read every 5 s, ports every
20, optics every 60; ranks beat and meters of power and coolant speak once a second.
"""

from tests.pipelines.timelines.derived import grown, light_fades, throttles
from tests.pipelines.timelines.form import At, Between, Do, Timeline, Told, replaced, ticket

FADED = light_fades(0.5, 5, lambda second: -6 * grown(second, 240 + 90, 210), every=60)
# Facility water is 1.3 K warmer at 13:08 than at 9:00, of 1.5 K that it swings by; a checkpoint is begun at 489 s.
HOT = throttles(inlet=35.3, begins=500, lasts=20, flow_left=0.25, pauses=(489,))

DAY: dict[str, Timeline] = {
    "incident_day": (
        # XID 79 is in the kernel log of that second.
        Told(Between(120, 121), "gpu_fallen_off_bus", ("n00017/3",), 1,
             replaced("n00017", work=[Do("reboot_node", "n00017")])),
        # Its first uncorrectable error, 60 s in and in the sample of that second, wants a reset; the remap that fails,
        # 100 s in, another GPU.
        Told(Between(330 + 60, 331 + 60), "gpu_memory", ("n00042/5",), 1,
             replaced("n00042", work=[Do("reset_gpu", "n00042/5"), Do("rma", "n00042/5")])),
        # As optic_decay: the bias has risen by 20 % at 411 s, and both are in the sample of 420 s and the one after it.
        Told(Between(FADED + 60, FADED + 61), "optic_degrading", ("c001100",), 0, ticket("c001100")),
        # As thermal_throttle, with samples of 5 s; steps of two minutes here reach the drain's time.
        Told(
            Between(HOT[0] + 5, HOT[1] + 1 + 2 * 5), "gpu_thermal_throttle", ("n00055/1",), 1,
            (
                Do("raise_flow", "n00055/1", by=5),
                Do("cap_power", "n00055/1", by=5 + 20 + 5),
                Do("drain_node", "n00055", by=5 + 20 + 5 + 60 + 1),
                *ticket("n00055/1"),
            ),
        ),
        # Down for 5 s every 40 s: the second outage, at 700 s, in the sample of that second; 3 s for a cause above it.
        Told(Between(700 + 3, 701 + 3), "link_flap", ("c001500",), 0,
             (Do("isolate_port", "spine-012:30", by=5), *ticket("c001500"))),
        # Silent for 60 s since the row 5 s before 700 s, and 3 s for a cause above it; rows come again 240 s later.
        Told(Between(695 + 60 + 3, 696 + 60 + 3), "telemetry_stale", ("gpu:n00070",), 0, ticket("gpu:n00070"),
             over=Between(940, 941)),
        # As node_lost.
        Told(Between(839 + 3.25 + 3, 840 + 3.25 + 3), "node_lost", ("n00029",), 8,
             replaced("n00029", work=[Do("reboot_node", "n00029")])),
        # The second sample that says so. One of two pumps leaves 60 % of the flow and a balance below 95 degrees: there
        # is no deadline. It runs again 240 s later, and 5 s of that end it.
        Told(
            Between(1020, 1022), "coolant_pump_failure", ("cdu-02",), 0,
            (
                Do("raise_flow", "cdu-02", by=5), Do("cap_power", "cdu-02", by=5),
                Do("global_checkpoint", "ndr-fat-tree"), Do("staged_shutdown", "cdu-02"), *ticket("cdu-02"),
            ),
            over=Between(1260 + 5, 1260 + 5 + 2),
        ),
        # In the shot of that instant.
        Told(At(1200), "fiber_loss", ("c001800",), 0, (Do("clean_connector", "c001800"), Do("reseat", "c001800"))),
        # The meters' last words. Eight spares, of which three are given: enough for a part of the first domain; the
        # rest goes onto GPUs that are reclaimed.
        Told(
            Between(1500, 1501), "power_domain_lost", ("pdu-004", "pdu-005", "pdu-006"), 384,
            (
                Do("global_checkpoint", "ndr-fat-tree", by=30),
                Do("allocate_spare", "pdu-004", by=5),
                *(Do("allocate_spare", f"pdu-00{pdu}", by=5, outcome="refused") for pdu in (5, 6)),
                Do("reclaim_gpus", "ndr-fat-tree", by=60),
                *(Do("restore_shard", f"pdu-00{pdu}", by=5 + 30) for pdu in (4, 5, 6)),
                *(Do("resume", f"pdu-00{pdu}", by=5 + 30 + 5) for pdu in (4, 5, 6)),
                *ticket("pdu-004", "pdu-005", "pdu-006"),
            ),
        ),
    ),
}  # fmt: skip
