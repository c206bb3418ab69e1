"""Which kinds of action are what, for the guard: read it before adding a kind."""

from schemas.action import ActionKind

# Bring back, or only tell a person: never held up by the breaker, a budget, a cooldown or age.
RETURNS: frozenset[ActionKind] = frozenset({"return_to_service", "resume", "release_spare"})
PAPER: frozenset[ActionKind] = frozenset({"open_ticket"})

# Take service away from the nodes under the target, so the breaker counts those.
# (A job restarted as a whole is no node acted on, nor is one with less power.)
DISRUPTIVE: frozenset[ActionKind] = frozenset({
    "restart_app", "reset_gpu", "drain_node", "reboot_node", "field_diagnostics", "rma",
    "staged_shutdown", "isolate_loop",
})  # fmt: skip
RESETS: frozenset[ActionKind] = frozenset({"reset_gpu", "reboot_node", "reset_port"})

# Trust what the target's own telemetry says. The others act on the job or on spares.
TRUST_TELEMETRY: frozenset[ActionKind] = DISRUPTIVE | frozenset({
    "isolate_port", "reset_port", "clean_connector", "reseat", "replace_cable", "return_to_service", "raise_flow",
    "switch_pump", "cap_power",
})  # fmt: skip
