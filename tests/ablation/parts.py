"""What stands beside a detector's settings and can be taken away too: constants, and the parts of its state.

A name that is no longer there raises; a part that no row belongs to survives its ablation, and is seen by that.
"""

from collections.abc import Mapping

# Thresholds that are no settings but stand in a module: the detector whose tests show them, and where below detectors/.
CONSTANTS: Mapping[str, tuple[str, ...]] = {
    "fabric.error_origin": ("fabric.error_origin.FIRST_SAMPLES", "fabric.error_origin.ENOUGH_SAMPLES"),
    "fabric.fiber_bend": ("fabric.module_normals.FIRST_SAMPLES", "fabric.module_normals.ENOUGH_SAMPLES"),
    "fabric.laser_aging": ("fabric.laser_aging.FIRST_SAMPLES", "fabric.laser_aging.ENOUGH_SAMPLES"),
    "fabric.slow_hop": ("fabric.slow_hop.FIRST_STEPS",),
    "fabric.worse_after_flap": (
        "fabric.worse_after_flap.ENOUGH_SAMPLES", "fabric.worse_after_flap.REMEMBERED_SAMPLES",
    ),
    "job.hang": ("job.hang.BUSY_PERCENT", "job.hang.IDLE_PERCENT", "job.hang.FEW"),
    "job.heartbeat": (
        "job.silent_nodes.ASKED_AGAIN", "job.silent_nodes.CLOCKS_APART", "job.silent_nodes.FEW_CLOCKS",
        "silence.JITTER_INTERVALS", "together.MANY_NODES", "together.MANY_SHARE", "together.FEW_SHARE",
        "together.SCATTERED_SHARE",
    ),
    "power.domain_loss": ("power.domain_silence.UNMETERED_NODES_MINIMUM",),
    "telemetry.stuck_counter": ("telemetry.counter_rows.GRID_SECONDS",),
}  # fmt: skip

ANY = "*"
# The column that tells the rows of a state apart, and its values; ANY: rows in which it is not null.
STATE_PARTS: Mapping[str, tuple[str, tuple[object, ...]]] = {
    "power.domain_loss": ("row", ("level", "loop", "meter", "node", "plan")),
    "coolant.pump_failure": ("starts_at", (ANY,)),
    "coolant.leak": ("starts_at", (ANY,)),
    "coolant.valve_stuck": ("row", ("level", "pending")),
    "coolant.heat_balance": ("row", ("heat", "means", "pending", "sensor")),
    "fabric.switch_lost": ("row", ("level", "plan", "word")),
    "fabric.link_down": ("plan_kind", (ANY,)),
    "fabric.link_flap": ("what", ("level", "outage", "port")),
    "fabric.error_origin": ("row", ("module", "port")),
    "fabric.fiber_bend": ("row", ("level", "module")),
    "fabric.slow_hop": ("row", ("job", "open", "port")),
    "gpu.xid": ("row", ("code", "gpu", "level")),
    "gpu.xid_repeats": ("row", ("level", "open", "place", "recent")),
    "gpu.absent": ("row", ("node", "plan", "slot")),
    "gpu.lemon": ("row", ("last", "recent")),
    "gpu.memory_errors": ("row", ("recent", "total")),
    "gpu.correctable_errors": ("row", ("recent", "total")),
    "gpu.nvlink_errors": ("row", ("recent", "total")),
    "gpu.pcie_link": ("row", ("best", "level")),
    "gpu.pcie_replays": ("row", ("recent", "total")),
    "gpu.thermal_resistance": ("row", ("baseline", "level", "pending")),
    "job.heartbeat": ("row", ("job", "loop", "node", "plan", "rank", "start")),
    "job.straggler": ("row", ("level", "open", "rank", "streak", "usual")),
    "job.hang": ("row", ("job", "rank", "slot")),
    "telemetry.stale": ("starts_at", (ANY,)),
    "telemetry.frozen": ("row", ("entity", "source")),
    "telemetry.source_restart": ("kind", (0, 1, 2)),
    "telemetry.stuck_counter": ("kind", (0, 1)),
}
