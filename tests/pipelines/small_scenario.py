"""One stopped pump in a cluster of four nodes, two minutes long, for tests of what is done with scenarios."""

from datetime import UTC, datetime

SOON = datetime(2026, 3, 2, 9, 5, tzinfo=UTC)
SCENARIO = """
name = "small"
seed = 3
starts_at = 2026-03-02T09:00:00Z
duration_seconds = 120
[topology.parameters]
pods = 1
superblocks_per_pod = 1
nodes_per_superblock = 4
nodes_per_leaf = 4
nodes_per_pdu = 4
nodes_per_cdu = 4
[[fault]]
fault = "pump_failure"
at_seconds = 60
entity = "cdu-00"
parameters = { pumps_stopped = 1 }
"""
# Thresholds that miss the stopped pump.
BLIND = '[detectors."coolant.pump_failure"]\nflow_drop = 0.99\npump_drop = 0.99\npower_drop = 0.99\n'
