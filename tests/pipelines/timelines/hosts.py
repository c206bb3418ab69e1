"""Timelines of GPUs, hosts, jobs and what watches them. GPUs are read and ranks beat once a second, each at its own
moment of it. There are no spares in these clusters: a node that must go is left out, and the job goes on without it.
"""

from tests.pipelines.timelines.derived import throttles
from tests.pipelines.timelines.form import Between, Do, Timeline, Told, left_out, ticket

# 30 degrees of facility water and an approach of 4; a checkpoint is begun at 210 s.
HOT = throttles(inlet=34.0, begins=180, lasts=20, flow_left=0.25, pauses=(210,))

GPUS: dict[str, Timeline] = {
    # The clock is at 80 % of its peers' for 20 s.
    "clock_loss": (
        Told(Between(180 + 20, 181 + 20), "gpu_straggler", ("n00002/7",), 1, ticket("n00002/7")),
    ),
    # XID 79 is in the kernel log of that second.
    "gpu_fallen_off_bus": (
        Told(Between(180, 181), "gpu_fallen_off_bus", ("n00005/3",), 1,
             left_out("n00005", work=[Do("reboot_node", "n00005")])),
    ),
    # The first remap, at 240 s, wants a reset (XID 63). The next cannot be, 40 s later (XID 64): back to its maker,
    # which comes last.
    "memory_decay": (
        Told(Between(240, 241), "gpu_memory", ("n00002/6",), 1,
             (*left_out("n00002", work=[Do("reset_gpu", "n00002/6")]), Do("rma", "n00002/6"))),
    ),
    # 5 CRC errors and a replay (worth 5) a second: 10 within the first samples, 2 s at the most.
    "nvlink_errors": (
        Told(Between(180, 183), "gpu_nvlink", ("n00005/3",), 1,
             left_out("n00005", work=[Do("reset_gpu", "n00005/3")])),
    ),
    # The lost lanes are bad after 5 s of load; 2 replays a second weigh double on half of the lanes and pass 31 a
    # minute in 8 s. The first to speak is the incident.
    "pcie_downtrain": (
        Told(Between(180 + 5, 181 + 5), "gpu_pcie", ("n00001/4",), 0, ticket("n00001/4")),
    ),
    # Bit 0x80 for 3 s.
    "power_brake": (
        Told(Between(180 + 3, 181 + 3), "gpu_power_brake", ("n00003/2",), 1, ticket("n00003/2")),
    ),
    # The second page fault, at 220 s, is judged when 45 s have shown that no other GPU had it.
    "repeated_xid": (
        Told(Between(220 + 45, 221 + 45), "gpu_fatal_error", ("n00004/5",), 1,
             left_out("n00004", work=[Do("reset_gpu", "n00004/5")])),
    ),
    # A step is 4.8 s at 1, and 30 % of its compute more: three slow steps in a row, the last judged 2 s after it began.
    "straggler": (
        Told(Between(180 + 3 * 4.8, 180 + 5 * 6 + 2), "gpu_straggler", ("n00006/2",), 1, ticket("n00006/2")),
    ),
    # A plate clogs in 20 s to a quarter of its flow, and 5 s of throttling are told. Flow has 20 s to help, and then
    # less power 60 s, before the node is drained; a replay decides every ten seconds.
    "thermal_throttle": (
        Told(
            Between(HOT[0] + 5, HOT[1] + 1 + 5), "gpu_thermal_throttle", ("n00003/1",), 1,
            (
                Do("raise_flow", "n00003/1", by=5),
                Do("cap_power", "n00003/1", by=5 + 20 + 5),
                Do("drain_node", "n00003", by=5 + 20 + 5 + 60 + 1),
                *ticket("n00003/1"),
            ),
        ),
    ),
    # The counter of the next sample.
    "uncorrectable_ecc": (
        Told(Between(180, 181), "gpu_memory", ("n00006/0",), 1,
             left_out("n00006", work=[Do("reset_gpu", "n00006/0")])),
    ),
}  # fmt: skip

HOSTS: dict[str, Timeline] = {
    "healthy": (),
    "odd_but_healthy": (),
    # A fatal XID in its second; the third failure of a week, at 780 s, makes the node a lemon.
    "lemon_node": (
        Told(Between(60, 61), "gpu_fatal_error", ("n00005/0",), 1,
             left_out("n00005", work=[Do("reset_gpu", "n00005/0")])),
        Told(Between(780, 781), "lemon_node", ("n00005",), 0, ticket("n00005")),
    ),
    # The last of eight beats is less than 1 s before or after 180; dead 3.25 s after it; 3 s for a cause above it.
    "node_lost": (
        Told(Between(179 + 3.25 + 3, 180 + 3.25 + 3), "node_lost", ("n00004",), 8,
             left_out("n00004", work=[Do("reboot_node", "n00004")])),
    ),
    # Critical for 30 s of samples a minute apart: the second one that says so. Well again when 30 s of samples, the
    # second after 500 s, do not.
    "supply_failed": (
        Told(Between(200 + 60, 200 + 120), "hardware_degraded", ("n00005",), 0, ticket("n00005"),
             over=Between(500, 500 + 120)),
    ),
}  # fmt: skip

JOBS: dict[str, Timeline] = {
    # Checkpoints every 120 s; the last that completes is begun at or before 100 s, and 2.5 intervals later it is old. A
    # stall of 6 s, and 3 s for a cause above it.
    "checkpoint_stale": (
        Told(Between(0 + 300, 100 + 300 + 6 + 3), "checkpoint_stale", ("train-1",), 0, ticket("train-1")),
    ),
    # One rank is behind and its host's GPUs are busy: 15 s without a step (three of 4.8 s are less), from the step in
    # which it hangs, which began at most 4.8 s before; 3 s for a cause above it.
    "job_hang": (
        Told(Between(240 - 4.8 + 15, 240 + 4.8 + 15 + 3), "job_hang", ("train-1",), 64,
             (Do("restart_app", "train-1"), *ticket("train-1"))),
    ),
}  # fmt: skip

TELEMETRY: dict[str, Timeline] = {
    # The host's rows carry a clock 30 s slow, from the beginning: 10 s of them, which by that clock is before 0.
    "clock_slow": (
        Told(Between(-30 + 10, -29 + 10), "clock_skew", ("gpu:n00006", "heartbeat:n00006"), 0,
             ticket("gpu:n00006", "heartbeat:n00006")),
    ),
    # 60 s of samples that stand, looked at every ten.
    "counter_stuck": (
        Told(Between(120 + 60, 121 + 60 + 10), "counter_stuck", ("gpu:n00005",), 0, ticket("gpu:n00005")),
    ),
    # Every eleventh row of eight GPUs a second is refused, from the first on and anew each minute: rows 0, 11 and 22
    # are of its first three seconds, row 473 of its last. 3 s for a cause above it; 60 s after the last it is over.
    "implausible_readings": (
        Told(Between(182 + 3, 183 + 3), "telemetry_implausible", ("gpu:n00001",), 0, ticket("gpu:n00001"),
             over=Between(299 + 60, 300 + 60)),
    ),
    # The second sample at the top, of every 30 s: the first one comes by 205 s.
    "saturated_counter": (
        Told(Between(175 + 30, 205 + 30), "counter_saturated", ("fabric_port:leaf-001",), 0,
             ticket("fabric_port:leaf-001")),
    ),
    # Counters begin anew at 120, 230 and 340 s; two are notes and the third is a ticket, seen up to 15 s later.
    "source_restarts": (
        Told(Between(340, 340 + 15), "source_restarted", ("gpu:n00003",), 0, ticket("gpu:n00003")),
    ),
    # 60 s without a change, and 3 s for a cause above it. Rows move again 150 s later.
    "telemetry_frozen": (
        Told(Between(179 + 60 + 3, 181 + 60 + 3), "telemetry_frozen", ("gpu:n00001",), 0, ticket("gpu:n00001"),
             over=Between(330, 331)),
    ),
    # 60 s without a row, and 3 s for a cause above it.
    "telemetry_stall": (
        Told(Between(179 + 60 + 3, 180 + 60 + 3), "telemetry_stale", ("gpu:n00001",), 0, ticket("gpu:n00001")),
    ),
}  # fmt: skip
