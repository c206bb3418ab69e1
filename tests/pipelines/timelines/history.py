"""Timelines of reconstructions of what has happened. Sources are in the scenarios; times as in the other files."""

from tests.pipelines.timelines.form import At, Between, Do, Timeline, Told, left_out, refused, replaced, ticket

HISTORY: dict[str, Timeline] = {
    # As job_hang: 15 s without a step, from one that began at most 4.8 s before; 3 s for a cause above it.
    "history/hang_all_busy": (
        Told(
            Between(180 - 4.8 + 15, 180 + 4.8 + 15 + 3), "job_hang", ("train-1",), 128,
            (Do("restart_app", "train-1"), *ticket("train-1")),
        ),
    ),
    # The last of 24 beats is less than 1 s from 180; dead 3.25 s after it; 3 s for a cause above them.
    "history/hosts_lost_together": (
        Told(
            Between(179 + 3.25 + 3, 180 + 3.25 + 3), "node_lost", ("n00004", "n00005", "n00006"), 24,
            left_out("n00004", "n00005", "n00006", work=[Do("reboot_node", f"n0000{node}") for node in (4, 5, 6)]),
        ),
    ),
    # The meters' last words. The spares are enough for the first of the three domains; for the others GPUs are
    # reclaimed.
    "history/lightning_strike": (
        Told(
            Between(180, 181), "power_domain_lost", ("pdu-000", "pdu-001", "pdu-002"), 384,
            (
                Do("global_checkpoint", "ndr-fat-tree", by=30),
                Do("allocate_spare", "pdu-000", by=5),
                *(Do("allocate_spare", f"pdu-00{pdu}", by=5, outcome="refused") for pdu in (1, 2)),
                Do("reclaim_gpus", "ndr-fat-tree", by=60),
                *(Do("restore_shard", f"pdu-00{pdu}", by=5 + 30) for pdu in range(3)),
                *(Do("resume", f"pdu-00{pdu}", by=5 + 30 + 5) for pdu in range(3)),
                *ticket("pdu-000", "pdu-001", "pdu-002"),
            ),
        ),
    ),
    # The first double bit error, 60 s in, wants a reset; the remap that fails, 100 s in, another GPU.
    "history/memory_wearing_out": (
        Told(
            Between(240, 241), "gpu_memory", ("n00002/6",), 1,
            (*left_out("n00002", work=[Do("reset_gpu", "n00002/6")]), Do("rma", "n00002/6")),
        ),
    ),
    # Bit 0x80 for 3 s of samples at one in 5 s: the second.
    "history/power_brake_for_hours": (
        Told(
            Between(180 + 5, 185 + 5), "gpu_power_brake", ("n00003/2", "n00003/5"), 2,
            ticket("n00003/2", "n00003/5"),
        ),
    ),
    # The slowest of 128 ranks that differ by 1.7 % (1.5 % of their own, 0.8 % a step) takes 4 to 6 % over 4 s: a step
    # is 4.96 to 5.04 s. The first slow one begins within a step after 180 s, the twenty-fifth ends 25 steps and a
    # checkpoint (6 s, at 220 s) later, is told with the next beat (1 s) and judged two beats after its last report.
    "history/silent_slow_gpu": (
        Told(
            Between(180 + 25 * 4.96 + 6 + 2, 180 + 26 * 5.04 + 6 + 1 + 2), "gpu_straggler", ("n00005/1",), 1,
            ticket("n00005/1"),
        ),
    ),
    # The agent's silence, from 200 s, is part of it.
    "history/stalled_agent": (
        Told(
            Between(180, 181), "gpu_fallen_off_bus", ("n00001/4",), 1,
            left_out("n00001", work=[Do("reboot_node", "n00001")]),
        ),
    ),
    # The second sample without flow. Fifteen of the sixteen nodes are on this loop, so all that throttle are 120 GPUs:
    # two stages of 2 s, which must be over when 95 degrees come, as for pump_failure 22 to 27 s later, and before them
    # a checkpoint of 20 s.
    "history/total_pump_failure": (
        Told(
            Between(180, 182), "coolant_pump_failure", ("cdu-00",), 120,
            (
                Do("raise_flow", "cdu-00", by=5),
                Do("cap_power", "cdu-00", by=5),
                Do("global_checkpoint", "ndr-fat-tree", by=Between(22 - 2 * 2 - 20, 27 - 2 * 2 - 20 + 1)),
                Do("staged_shutdown", "cdu-00", by=Between(22 - 2 * 2 - 1, 27 - 2 * 2 + 1)),
                *ticket("cdu-00"),
            ),
        ),
    ),
    # Four nodes of a superblock may be out (recovery.drained_nodes_per_superblock), and a job of sixteen nodes needs
    # twelve (job_nodes_minimum_share): n00000, n00009, n00005 and n00012 go, from then on people decide. No node is a
    # spare. A double bit error wants a reset, a remap that failed another GPU.
    "history/llama3_mix": (
        # As job_hang; the crash at 340 s ends it.
        Told(
            Between(240 - 4.8 + 15, 240 + 4.8 + 15 + 3), "job_hang", ("train-1",), 128,
            (Do("restart_app", "train-1"), *ticket("train-1")), over=At(340),
        ),
        Told(
            Between(430, 431), "gpu_fallen_off_bus", ("n00000/2",), 1,
            left_out("n00000", work=[Do("reboot_node", "n00000")]),
        ),
        # GPUs are read every 5 s, in the second in which the first remap is.
        Told(
            Between(520, 521), "gpu_memory", ("n00009/5",), 1,
            (*left_out("n00009", work=[Do("reset_gpu", "n00009/5")]), Do("rma", "n00009/5")),
        ),
        # The second outage, at 600 s, in the sample of that second; 3 s for a cause above it.
        Told(
            Between(600 + 3, 601 + 3), "link_flap", ("c000181",), 0,
            (Do("isolate_port", "spine-001:27", by=5), *ticket("c000181")),
        ),
        Told(
            Between(630, 631), "gpu_fatal_error", ("n00005/7",), 1,
            left_out("n00005", work=[Do("reset_gpu", "n00005/7")]),
        ),
        # Errors that weigh ten a second: in the sample of that second, or in the next one.
        Told(
            Between(690, 695 + 1), "gpu_nvlink", ("n00012/3",), 1,
            left_out("n00012", work=[Do("reset_gpu", "n00012/3")]),
        ),
        Told(Between(750, 751), "gpu_memory", ("n00007/0",), 1, refused("n00007", Do("reset_gpu", "n00007/0"))),
        # The second time, at 880 s, and 45 s of nobody else.
        Told(
            Between(880 + 45, 881 + 45), "gpu_fatal_error", ("n00014/4",), 1,
            refused("n00014", Do("reset_gpu", "n00014/4")),
        ),
        Told(
            Between(919 + 3.25 + 3, 920 + 3.25 + 3), "node_lost", ("n00010",), 8,
            refused("n00010", Do("reboot_node", "n00010")),
        ),
        Told(
            Between(1010, 1011), "gpu_memory", ("n00002/6",), 1,
            (*refused("n00002", Do("reset_gpu", "n00002/6")), Do("rma", "n00002/6", outcome="refused")),
        ),
        Told(
            Between(1080, 1081), "gpu_fallen_off_bus", ("n00015/1",), 1, refused("n00015", Do("reboot_node", "n00015")),
        ),
    ),
    # Two outages, at 120 and 160 s, in samples of those seconds, and 3 s for a cause above them; two within 5 minutes
    # hold until 420 s. After a settling time of 300 s two samples say that errors are worse than they were.
    "history/worse_after_flap": (
        Told(
            Between(160 + 3, 161 + 3), "link_flap", ("c000068",), 0,
            (Do("isolate_port", "spine-000:5", by=5), *ticket("c000068")), over=Between(120 + 300, 121 + 300),
        ),
        Told(Between(165 + 300 + 10, 165 + 300 + 3 * 10), "link_degraded", ("c000068",), 0, ticket("c000068")),
    ),
    # XID 48 is logged a second before the second crash; of the 672 lines of XID 45 nothing is said. Spares are at hand.
    "history/xid_45_storm": (
        Told(Between(360, 361), "gpu_memory", ("n00004/6",), 1, replaced("n00004", work=[Do("reset_gpu", "n00004/6")])),
    ),
}  # fmt: skip
