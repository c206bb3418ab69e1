"""No sequence of findings, however wild, gets past a budget, the breaker or the two-person rule.

Findings go through correlation into recovery with everything enforced; what the executor was made to do is counted by
the test itself, from the effects.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, get_args

import polars as pl
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from detectors.contract import FINDING_COLUMNS, Context
from detectors.correlate import correlate
from detectors.correlation_state import Correlation
from pipelines.operations_jobs import Jobs
from pipelines.operations_store import OperationsStore
from pipelines.recovery.executors.contract import ActionOutcome
from pipelines.recovery.kinds import DISRUPTIVE
from pipelines.recovery.ledger import Ledger
from pipelines.recovery.recover import recover
from pipelines.recovery.settings import RecoverySettings
from schemas.action import ActionKind, ActionRequest
from schemas.topology import Topology, node_of
from tests.detectors.correlation_timeline import NOON, finding

CHOSEN = RecoverySettings(
    mode="enforce", cooldown_seconds=0, drained_nodes_minimum=5, drained_nodes_share=0.0,
    drained_nodes_per_superblock=3, isolated_links_minimum=3, isolated_links_share=0.0, isolated_links_per_device=2,
    breaker_share=0.25, breaker_window_seconds=60, node_clean_seconds=20, link_clean_seconds=20,
    job_nodes_minimum={"train": 7},
)  # fmt: skip
TWO_PEOPLE = {"staged_shutdown", "global_checkpoint"}
JOB = {f"n{number:05}" for number in range(12, 20)}  # in both superblocks; one of eight may go, and more with spares


@dataclass
class Witness:
    """Does everything, and remembers what and when."""

    now: datetime = NOON
    effects: list[tuple[datetime, ActionRequest]] = field(default_factory=list)

    def apply(self, request: ActionRequest) -> ActionOutcome:
        self.effects.append((self.now, request))
        return ActionOutcome(done=True)

    def outcome_of(self, request_id: str) -> None:
        return None


NODES = st.integers(0, 31).map(lambda i: f"n{i:05}")
SAID = st.one_of(
    st.tuples(st.sampled_from(["gpu_fallen_off_bus", "gpu_fatal_error", "gpu_nvlink"]), NODES.map("{}/0".format)),
    st.tuples(st.just("node_lost"), NODES),
    st.tuples(st.just("link_flap"), st.integers(0, 31).map(lambda i: f"s{i:05}")),
    st.tuples(st.sampled_from(["coolant_pump_failure", "coolant_leak"]), st.sampled_from(["cdu-0", "cdu-1"])),
    st.tuples(st.just("power_domain_lost"), st.sampled_from([f"pdu-{i}" for i in range(4)])),
)
SEQUENCE = st.lists(st.tuples(SAID, st.booleans(), st.sampled_from([0.0, 1.0, 8.0, 45.0])), min_size=10, max_size=40)


DEAD = [(("node_lost", node), True, 8.0) for node in sorted(JOB)]  # more nodes of the job than it can spare
# Spread over both superblocks, and slowly: neither theirs nor the breaker holds them up, but the budget in all.
SPREAD = [(("node_lost", f"n{number:05}"), True, 45.0) for number in (0, 20, 1, 21, 2, 22, 22)]
FLAPS = [(("link_flap", f"s{number:05}"), True, 1.0) for number in range(0, 32, 4)]  # more links than may be out


@given(sequence=SEQUENCE, approving=st.booleans())
@example(sequence=FLAPS, approving=True)
@example(sequence=DEAD, approving=True)
@example(sequence=SPREAD, approving=True)
@settings(max_examples=12, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])  # shrinking: minutes
def test_no_sequence_of_findings_exceeds_a_budget_the_breaker_or_the_two_person_rule(
    topology: Topology, sequence: list[Any], *, approving: bool
) -> None:
    store, witness, state = OperationsStore.open(":memory:"), Witness(), Correlation()
    start = {"time": NOON, "job": "train", "kind": "start", "members": [f"{node}/0" for node in sorted(JOB)]}
    Jobs(store).remember(pl.DataFrame([{**start, "checkpoint_interval_seconds": None}]))
    at = 0.0
    for (cause, entity), active, wait in sequence:
        at += wait
        told = pl.DataFrame([finding(at, cause, entity, active=active)], schema=FINDING_COLUMNS)
        now = NOON + timedelta(seconds=at + 1)
        context = Context(now=now, began=NOON, topology=topology, intervals_seconds={})
        _, state = correlate(told, state, context)
        witness.now = now
        store.upsert_incidents(state.incidents, now)
        if approving:
            for record in Ledger(store).actions(outcomes=["waiting_approval"], limit=None):
                Ledger(store).answer(record.request.id, "ann", "", now, verdict="approved")
        recover(state.incidents, topology, store, CHOSEN, dict.fromkeys(get_args(ActionKind), witness), now)
        at += 1
    store.close()
    check(witness.effects, topology)


def check(effects: list[tuple[datetime, ActionRequest]], topology: Topology) -> None:
    assert len({request.id for _, request in effects}) == len(effects), "something was done twice"
    drained: set[str] = set()
    links: set[str] = set()
    stands_in: dict[str, int] = {}
    for number, (at, request) in enumerate(effects):
        if request.kind == "return_to_service":
            drained.discard(request.target)
            links.discard(str(request.parameters.get("cable")))
        if request.kind == "drain_node":
            drained.add(request.target)
        if request.kind == "isolate_port":
            links.add(str(request.parameters["cable"]))
        if request.kind == "allocate_spare":
            stands_in[request.target] = len(request.parameters["spares"])
        if request.kind == "drain_node" and request.target in JOB:
            left = len(JOB - drained) + sum(stands_in.get(node, 0) for node in JOB & drained)
            assert left >= 7, "a drain took the job below its minimum"
        assert len(drained) <= 5
        assert all(
            sum(topology.node_rows[node]["superblock"] == sb for node in drained) <= 3 for sb in ("sb-0", "sb-1")
        )
        assert len(links) <= 3
        assert all(sum(int(link[1:]) // 16 == leaf for link in links) <= 2 for leaf in (0, 1))
        lately = {
            node
            for when, other in effects[: number + 1]
            if other.kind in DISRUPTIVE - {"field_diagnostics"} and when > at - timedelta(seconds=60)
            for node in topology.nodes_under(str(other.parameters["target_kind"]), other.target)
        }
        assert len(lately) <= 0.25 * 32
        resets = [other for _, other in effects if other.kind in ("reset_gpu", "reboot_node")]
        for one in resets:
            same = [other for other in resets if other.target in (one.target, node_of(one.target))]
            assert len(same) <= 2
        if request.kind == "staged_shutdown":  # nothing is lost: a checkpoint first, or no time left for one
            saved = any(
                (one.kind, one.incident) == ("global_checkpoint", request.incident) for _, one in effects[:number]
            )
            assert saved or at >= datetime.fromisoformat(request.parameters["deadline_at"])
        if request.kind in TWO_PEOPLE:  # one person alone never suffices before the deadline
            assert request.parameters["cause"] in ("coolant_pump_failure", "coolant_leak", "power_domain_lost")
            assert at >= datetime.fromisoformat(request.parameters["deadline_at"])
