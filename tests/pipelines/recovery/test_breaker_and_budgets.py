from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.operations_records import Breaker
from pipelines.recovery.checks import Refusal
from pipelines.recovery.guard import decide
from pipelines.recovery.settings import RecoverySettings
from schemas.topology import Topology, node_of
from tests.pipelines.recovery.guard_requests import CLOSED, ENFORCE, KINDS, T0, TRIPPED, ask, done, facts, later


@pytest.mark.parametrize("kind", ["return_to_service", "resume", "open_ticket"])
def test_a_tripped_breaker_never_holds_up_what_brings_back_or_informs(topology: Topology, kind: Any) -> None:
    given_facts = facts(topology, breaker=TRIPPED, executors=frozenset({kind}), now=later(9999))
    assert decide(ask(kind, "n00001"), given_facts, ENFORCE).outcome == "pending"


def test_a_tripped_breaker_stops_the_rest(topology: Topology) -> None:
    assert (
        decide(ask("drain_node", "n00001"), facts(topology, breaker=TRIPPED), ENFORCE).refusal
        is Refusal.BREAKER_TRIPPED
    )


def test_the_backlog_from_before_a_reset_is_not_let_loose(topology: Topology) -> None:
    reset = Breaker(tripped=False, at=later(10), by="ann", reason="bad detector")
    old, new = ask("drain_node", "n00001", at=later(9)), ask("drain_node", "n00001", at=later(11))
    given_facts = facts(topology, breaker=reset, now=later(20))
    assert decide(old, given_facts, ENFORCE).refusal is Refusal.EXPIRED
    assert decide(new, given_facts, ENFORCE).refusal is None


def test_the_breaker_trips_beyond_half_of_the_nodes_within_five_minutes(topology: Topology) -> None:
    past = [done(ask("reset_gpu", f"n{i:05}/0", "gpu"), later(i)) for i in range(16)]  # 16 of 32 nodes
    request = ask("reset_gpu", "n00020/0", "gpu", at=later(290))
    decision = decide(request, facts(topology, *past, now=later(290)), ENFORCE)
    assert (decision.refusal, decision.trips_breaker) == (Refusal.BREAKER_TRIPS, True)
    assert decide(request, facts(topology, *past, now=later(300)), ENFORCE).refusal is None  # the first is 5 min old


def test_a_dry_run_says_that_it_would_trip_the_breaker_and_leaves_it_alone(topology: Topology) -> None:
    past = [done(ask("reset_gpu", f"n{i:05}/0", "gpu"), outcome="dry-run") for i in range(16)]
    decision = decide(ask("reset_gpu", "n00020/0", "gpu"), facts(topology, *past), RecoverySettings())
    assert (decision.refusal, decision.trips_breaker) == (Refusal.BREAKER_TRIPS, False)


# No sequence of requests exceeds a budget

TIGHT = RecoverySettings(
    mode="enforce", cooldown_seconds=5, isolated_links_minimum=3, isolated_links_share=0.0, isolated_links_per_device=2,
    drained_nodes_minimum=6, drained_nodes_share=0.0, drained_nodes_per_superblock=4, breaker_share=1.0,
    breaker_window_seconds=30, resets_window_days=1,
)  # fmt: skip
# Wide enough budgets that only the breaker holds anything back: 8 of 32 nodes.
BREAKER_ONLY = TIGHT.model_copy(
    update={"breaker_share": 0.25, "drained_nodes_minimum": 32, "drained_nodes_per_superblock": 32}
)
DRAINS = st.integers(0, 31).map(lambda i: ("drain_node", f"n{i:05}", "node", {}))
RESETS = st.integers(0, 2).map(lambda i: ("reset_gpu", f"n{i:05}/0", "gpu", {}))
NEAR = st.integers(0, 31).map(lambda i: ("isolate_port", f"leaf-{i // 16}:{i % 16 + 1}", "port", {"cable": f"c{i:05}"}))
FAR = st.integers(0, 31).map(lambda i: ("isolate_port", f"spine-{i % 16}:{i // 16 + 1}", "port", {"cable": f"s{i:05}"}))
RETURNS = st.integers(0, 31).map(lambda i: ("return_to_service", f"n{i:05}", "node", {}))
WAITS = st.sampled_from([0.0, 1.0, 6.0, 40.0])
MOVES = st.lists(st.tuples(st.one_of(DRAINS, RESETS, NEAR, FAR, RETURNS), WAITS), min_size=20, max_size=80)


@pytest.mark.parametrize("chosen", [TIGHT, BREAKER_ONLY])
@given(moves=MOVES)
@settings(max_examples=60, deadline=None)
def test_no_sequence_of_requests_exceeds_a_budget(
    topology: Topology, chosen: RecoverySettings, moves: list[Any]
) -> None:
    now, past, breaker = T0, [], CLOSED
    drained: set[str] = set()
    links: set[str] = set()
    acted: list[tuple[datetime, str]] = []
    resets: dict[str, int] = {}
    for (kind, target, target_kind, parameters), wait in moves:
        now += timedelta(seconds=wait)
        request = ask(kind, target, target_kind, at=now, **parameters)
        everyone = KINDS | {"return_to_service"}
        given_facts = facts(topology, *past, now=now, chosen=chosen, breaker=breaker, executors=everyone)
        decision = decide(request, given_facts, chosen)
        if breaker.tripped:
            assert decision.outcome == "refused" or kind == "return_to_service"
        if decision.trips_breaker:
            breaker = Breaker(tripped=True, at=now, by="recovery", reason=decision.why)
        if decision.outcome != "pending":
            continue
        past.append(done(request, now))
        if kind == "return_to_service":
            drained.discard(target)
            continue
        if kind == "drain_node":
            drained.add(target)
        if kind == "isolate_port":
            links.add(parameters["cable"])
        else:
            acted.append((now, node_of(target)))
        if kind == "reset_gpu":
            resets[target] = resets.get(target, 0) + 1
        assert len(drained) <= chosen.drained_nodes_minimum
        assert (
            max((sum(int(node[1:]) // 16 == block for node in drained) for block in (0, 1)), default=0)
            <= chosen.drained_nodes_per_superblock
        )
        assert len(links) <= 3
        for leaf in (0, 1):
            assert sum(int(link[1:]) // 16 == leaf for link in links) <= 2
        assert len({node for at, node in acted if at > now - timedelta(seconds=30)}) <= 32 * chosen.breaker_share
        assert all(times <= 2 for times in resets.values())
