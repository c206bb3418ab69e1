"""A drain, against an API server that answers as the real one does: well, badly, half, or not at all."""

from typing import Any

import pytest

from tests.pipelines.recovery.executors import kubernetes_server as k8s
from tests.pipelines.recovery.executors.kubernetes_requests import Make, ask, drained, said
from tests.pipelines.recovery.executors.kubernetes_server import ApiServer, node, pod


def test_a_node_is_cordoned_tainted_and_marked_at_once_and_then_emptied(cluster: ApiServer, made: Make) -> None:
    outcome = drained(made(), ask(target=f"{k8s.NODE}/3"))
    assert said(outcome) == (True, False)
    (change,) = cluster.changes()
    assert change["spec"] == {"unschedulable": True, "taints": [k8s.GPU_TAINT, *k8s.OURS]}  # another's taint stays
    assert change["metadata"]["resourceVersion"] == "1000"  # nobody else's change is overwritten
    assert cluster.node["metadata"]["labels"]["hotspare/drained-by"] == "act-1"
    assert cluster.evicted() == ["rank-0", "rank-1"]


def test_pods_that_would_start_again_or_have_ended_are_left_alone(cluster: ApiServer, made: Make) -> None:
    cluster.pods = {
        one["metadata"]["name"]: one
        for one in (
            pod("exporter", "DaemonSet"), pod("proxy", None, **{"kubernetes.io/config.mirror": "af0e"}),
            pod("done", "Job", "Succeeded"), pod("rank-0"),
        )
    }  # fmt: skip
    assert drained(made()).done
    assert cluster.evicted() == ["rank-0"]


def test_a_pod_that_nothing_would_start_again_is_for_a_person(cluster: ApiServer, made: Make) -> None:
    cluster.pods["debug"] = pod("debug", None)
    outcome = drained(made())
    assert said(outcome) == (False, False)
    assert "train/debug" in outcome.detail
    assert cluster.evicted() == []


def test_a_disruption_budget_is_waited_for(cluster: ApiServer, made: Make) -> None:
    cluster.budget = 5
    assert drained(made()).done
    assert cluster.pods == {}


def test_a_drain_that_takes_long_is_left_under_way_after_one_look(cluster: ApiServer, made: Make) -> None:
    cluster.budget = 1000
    outcome = made().apply(ask())
    assert outcome.under_way
    assert "2 pods are still there" in outcome.detail
    assert len(cluster.evicted()) == 2  # each asked once
    assert len(cluster.asked) < 12


def test_a_server_that_hangs_costs_one_answer_and_not_one_for_each_pod(cluster: ApiServer, made: Make) -> None:
    cluster.faults = [("POST", "eviction", "hang")] * 2
    outcome = made(timeout_seconds=0.2).apply(ask())
    assert outcome.under_way
    assert len(cluster.evicted()) <= 1


def test_a_budget_that_does_not_give_way_ends_at_the_deadline_with_the_node_cordoned(
    cluster: ApiServer, made: Make
) -> None:
    cluster.budget = 1000
    outcome = drained(made())
    assert said(outcome) == (False, False)  # half done: not tried again by itself
    assert "stays cordoned: after 10 s 2 pods are still there" in outcome.detail
    assert "disruption budget" in outcome.detail
    assert cluster.node["spec"]["unschedulable"]


def test_pods_that_were_told_to_end_are_not_gone(cluster: ApiServer, made: Make) -> None:
    cluster.stuck = True
    assert said(drained(made())) == (False, False)
    assert cluster.evicted() == ["rank-0", "rank-1"]  # told once each


def test_a_lost_node_whose_pods_are_told_to_end_is_drained_as_far_as_it_can_be(cluster: ApiServer, made: Make) -> None:
    cluster.node, cluster.stuck = node(ready="Unknown"), True
    outcome = drained(made())
    assert said(outcome) == (True, False)
    assert "2 pods are told to end, unconfirmed" in outcome.detail


@pytest.mark.parametrize("ready", ["False", None])
def test_pods_on_a_node_whose_kubelet_is_not_known_to_be_silent_are_waited_for(
    cluster: ApiServer, made: Make, ready: str | None
) -> None:
    """A living kubelet says False of itself, as when its runtime is down; a new node has said nothing yet."""
    cluster.node, cluster.stuck = node(ready=ready), True
    outcome = drained(made())
    assert said(outcome) == (False, False)
    assert "2 pods are still there" in outcome.detail


def test_a_pod_that_came_back_under_the_same_name_is_not_evicted(cluster: ApiServer, made: Make) -> None:
    """Listed here, gone by itself, and started again elsewhere before the eviction comes."""
    seen, cluster.pods = pod("rank-0"), {"rank-0": pod("rank-0")}
    cluster.pods["rank-0"]["metadata"]["uid"] = "uid-of-the-next"
    cluster.faults = [("GET", "/api/v1/pods", cluster.list_of("PodList", found)) for found in ([seen], [])]
    assert said(drained(made())) == (True, False)
    assert cluster.evicted() == ["rank-0"]  # asked for the one that was seen
    assert [*cluster.pods] == ["rank-0"]


def test_where_one_namespace_is_looked_at_the_outcome_says_so(cluster: ApiServer, made: Make) -> None:
    outcome = drained(made(namespace="train"))
    assert said(outcome) == (True, False)
    assert outcome.detail == f"{k8s.NODE} is cordoned, no pods of namespace train left"


def test_a_grace_period_and_another_name_are_as_set(cluster: ApiServer, made: Make) -> None:
    executor = made(names={"gpu-1": k8s.NODE}, grace_seconds=3)
    assert drained(executor, ask(target="gpu-1")).done
    assert cluster.asked[-1][0] == "GET"  # seen empty at the end
    options = [body["deleteOptions"]["gracePeriodSeconds"] for method, _, body in cluster.asked if method == "POST"]
    assert options == [3, 3]


@pytest.mark.parametrize(
    ("faults", "done", "recoverable"),
    [
        ([("GET", k8s.NODE_PATH, "drop")], False, True),  # a lookup that failed: nothing was changed
        ([("GET", k8s.NODE_PATH, (200, b"<html>proxy error</html>"))], False, True),
        ([("GET", k8s.NODE_PATH, (200, b'{"kind": "Node", "metadata": {"name": "n00002"}, "spec": {}}'))], False, True),
        ([("GET", k8s.NODE_PATH, k8s.NOT_FOUND)], False, True),
        ([("PATCH", k8s.NODE_PATH, k8s.FORBIDDEN)], False, True),
        ([("PATCH", k8s.NODE_PATH, k8s.STALE)], True, False),  # somebody was first: read again
        ([("PATCH", k8s.NODE_PATH, k8s.STALE)] * 4, True, False),  # accepted on the last try
        ([("PATCH", k8s.NODE_PATH, k8s.STALE)] * 9, False, True),
        ([("PATCH", k8s.NODE_PATH, "lose")], True, False),  # it was taken, as the next look shows
        ([("PATCH", k8s.NODE_PATH, "drop"), ("PATCH", k8s.NODE_PATH, (500, b"boom"))], True, False),
        (
            [("PATCH", k8s.NODE_PATH, "drop"), ("PATCH", k8s.NODE_PATH, k8s.FORBIDDEN)],
            False,
            False,
        ),  # the first may have been taken
        ([("GET", "/api/v1/pods", "drop")], True, False),  # looked again
        ([("GET", "/api/v1/pods", (200, b"{}"))], True, False),  # nonsense is no empty node
        ([("GET", "/api/v1/pods", k8s.FORBIDDEN)], False, False),
        ([("GET", "/api/v1/pods", (200, b"{}"))] * 20, False, False),
        ([("POST", "rank-0/eviction", "lose")], True, False),
        ([("POST", "rank-0/eviction", "drop")], True, False),
        ([("POST", "rank-1/eviction", k8s.NO_EVICTION)], False, False),
        ([("POST", "rank-1/eviction", k8s.TWO_BUDGETS)] * 20, False, False),
        ([("POST", "rank-0/eviction", (200, b"nonsense"))], True, False),
    ],
)
def test_only_a_node_that_is_seen_empty_is_drained(
    cluster: ApiServer, made: Make, faults: list[Any], *, done: bool, recoverable: bool
) -> None:
    cluster.faults = list(faults)
    assert said(drained(made())) == (done, recoverable)
    assert done == (not cluster.pods)


def test_an_answer_that_does_not_come_in_time_is_none(cluster: ApiServer, made: Make) -> None:
    cluster.faults = [("GET", k8s.NODE_PATH, "hang")]
    outcome = made(timeout_seconds=0.2).apply(ask())
    assert said(outcome) == (False, True)
    assert "imeout" in outcome.detail
    assert (cluster.changes(), cluster.evicted()) == ([], [])


def test_an_answer_about_other_nodes_evicts_nobody(cluster: ApiServer, made: Make) -> None:
    """As from a proxy that drops the field selector."""
    cluster.pods["elsewhere"] = pod("elsewhere")
    cluster.pods["elsewhere"]["spec"]["nodeName"] = "n00002"
    assert said(drained(made())) == (False, False)
    assert cluster.evicted() == []


@pytest.mark.parametrize(
    "target", ["n1; reboot", "$(reboot)", "../secrets", "n1\nx", "", "N1", "n1?x=1", "n1#", "n" * 300, "n1%2f.."]
)
def test_a_hostile_name_reaches_no_address(cluster: ApiServer, made: Make, target: str) -> None:
    outcome = drained(made(), ask(target=target))
    assert said(outcome) == (False, False)
    assert cluster.asked == []


def test_a_person_who_uncordons_in_the_middle_stops_the_drain(cluster: ApiServer, made: Make) -> None:
    cluster.budget = 1000
    executor = made()
    assert executor.apply(ask()).under_way
    cluster.node["spec"].pop("unschedulable")
    stopped = executor.carry_on(ask(), 1.0)
    assert said(stopped) == (False, False)
    assert "changed by somebody" in stopped.detail
    assert cluster.evicted() == ["rank-0", "rank-1"]  # of the first look
