"""Kubernetes against an API server that answers as the real one does: well, badly, half, or not at all."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pipelines.recovery.executors.choose import executors_from
from pipelines.recovery.executors.contract import ActionOutcome
from pipelines.recovery.executors.kubernetes import KubernetesExecutor
from pipelines.recovery.executors.settings import ExecutorSettings, KubernetesSettings
from pipelines.settings import Settings, SettingsError
from schemas.action import ActionRequest
from tests.pipelines.recovery.executors import kubernetes_server as k8s
from tests.pipelines.recovery.executors.kubernetes_server import ApiServer, node, pod, serving

NODE = f"/nodes/{k8s.NODE}"
OURS = ({"key": "hotspare/drained", "value": "act-1", "effect": "NoSchedule"},)
Make = Callable[..., KubernetesExecutor]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(ApiServer()) as kept:
        kept.pods = {name: pod(name) for name in ("rank-0", "rank-1")}
        yield kept


@pytest.fixture
def made(server: ApiServer, tmp_path: Path) -> Make:
    """Time is what is slept."""
    config = tmp_path / "kubeconfig"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        f"clusters: [{{name: c, cluster: {{server: '{server.address}'}}}}]\n"
        "users: [{name: u, user: {token: t0ken}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
    )

    def make(**changes: Any) -> KubernetesExecutor:
        slept = [0.0]
        settings = KubernetesSettings(kubeconfig=config, **{"deadline_seconds": 10, **changes})
        return KubernetesExecutor(
            settings=settings, sleep=lambda seconds: slept.append(slept[-1] + seconds), clock=lambda: slept[-1]
        )

    return make


def ask(kind: Any = "drain_node", target: str = k8s.NODE, identity: str = "act-1", **parameters: Any) -> ActionRequest:
    return ActionRequest(
        id=identity, incident="inc-1", kind=kind, target=target, parameters=parameters,
        requested_at=datetime(2026, 3, 1, tzinfo=UTC), reason="because",
    )  # fmt: skip


def back(undoes: str = "act-1") -> ActionRequest:
    return ask("return_to_service", identity="act-2", undoes=undoes)


def said(outcome: ActionOutcome) -> tuple[bool, bool]:
    assert outcome.detail
    assert "\n" not in outcome.detail
    return outcome.done, outcome.recoverable


def drained(**changes: Any) -> k8s.Document:
    """As a drain of ours leaves it, with the taint that Kubernetes itself adds to a cordoned node."""
    found = node(**{"unschedulable": True, "taints": (k8s.GPU_TAINT, k8s.CORDON_TAINT, *OURS), **changes})
    found["metadata"]["labels"]["hotspare/drained-by"] = "act-1"
    return found


def test_a_node_is_cordoned_tainted_and_marked_at_once_and_then_emptied(server: ApiServer, made: Make) -> None:
    outcome = made().apply(ask(target=f"{k8s.NODE}/3"))
    assert said(outcome) == (True, False)
    (change,) = server.changes()
    assert change["spec"] == {"unschedulable": True, "taints": [k8s.GPU_TAINT, *OURS]}  # another's taint stays
    assert change["metadata"]["resourceVersion"] == "1000"  # nobody else's change is overwritten
    assert server.node["metadata"]["labels"]["hotspare/drained-by"] == "act-1"
    assert server.evicted() == ["rank-0", "rank-1"]


def test_pods_that_would_start_again_or_have_ended_are_left_alone(server: ApiServer, made: Make) -> None:
    server.pods = {
        one["metadata"]["name"]: one
        for one in (
            pod("exporter", "DaemonSet"), pod("proxy", None, **{"kubernetes.io/config.mirror": "af0e"}),
            pod("done", "Job", "Succeeded"), pod("rank-0"),
        )
    }  # fmt: skip
    assert made().apply(ask()).done
    assert server.evicted() == ["rank-0"]


def test_a_pod_that_nothing_would_start_again_is_for_a_person(server: ApiServer, made: Make) -> None:
    server.pods["debug"] = pod("debug", None)
    outcome = made().apply(ask())
    assert said(outcome) == (False, False)
    assert "train/debug" in outcome.detail
    assert server.evicted() == []


def test_a_disruption_budget_is_waited_for(server: ApiServer, made: Make) -> None:
    server.budget = 5
    assert made().apply(ask()).done
    assert server.pods == {}


def test_a_budget_that_does_not_give_way_ends_at_the_deadline_with_the_node_cordoned(
    server: ApiServer, made: Make
) -> None:
    server.budget = 1000
    outcome = made().apply(ask())
    assert said(outcome) == (False, False)  # half done: not tried again by itself
    assert "stays cordoned: after 10 s 2 pods are still there" in outcome.detail
    assert "disruption budget" in outcome.detail
    assert server.node["spec"]["unschedulable"]


def test_pods_that_were_told_to_end_are_not_gone(server: ApiServer, made: Make) -> None:
    server.stuck = True
    assert said(made().apply(ask())) == (False, False)
    assert server.evicted() == ["rank-0", "rank-1"]  # told once each


def test_a_lost_node_whose_pods_are_told_to_end_is_drained_as_far_as_it_can_be(server: ApiServer, made: Make) -> None:
    server.node, server.stuck = node(ready="Unknown"), True
    outcome = made().apply(ask())
    assert said(outcome) == (True, False)
    assert "2 pods are told to end, unconfirmed" in outcome.detail


def test_a_grace_period_and_another_name_are_as_set(server: ApiServer, made: Make) -> None:
    executor = made(names={"gpu-1": k8s.NODE}, grace_seconds=3)
    assert executor.apply(ask(target="gpu-1")).done
    assert server.asked[-1][0] == "GET"  # seen empty at the end
    options = [body["deleteOptions"]["gracePeriodSeconds"] for method, _, body in server.asked if method == "POST"]
    assert options == [3, 3]


@pytest.mark.parametrize(
    ("faults", "done", "recoverable"),
    [
        ([("GET", NODE, "drop")], False, True),  # a lookup that failed: nothing was changed
        ([("GET", NODE, (200, b"<html>proxy error</html>"))], False, True),
        ([("GET", NODE, (200, b'{"kind": "Node", "metadata": {"name": "n00002"}, "spec": {}}'))], False, True),
        ([("GET", NODE, k8s.NOT_FOUND)], False, True),
        ([("PATCH", NODE, k8s.FORBIDDEN)], False, True),
        ([("PATCH", NODE, k8s.STALE)], True, False),  # somebody was first: read again
        ([("PATCH", NODE, k8s.STALE)] * 9, False, True),
        ([("PATCH", NODE, "lose")], True, False),  # it was taken, as the next look shows
        ([("PATCH", NODE, "drop"), ("PATCH", NODE, (500, b"boom"))], True, False),
        ([("PATCH", NODE, "drop"), ("PATCH", NODE, k8s.FORBIDDEN)], False, False),  # the first may have been taken
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
    server: ApiServer, made: Make, faults: list[Any], *, done: bool, recoverable: bool
) -> None:
    server.faults = list(faults)
    assert said(made().apply(ask())) == (done, recoverable)
    assert done == (not server.pods)


def test_an_answer_that_does_not_come_in_time_is_none(server: ApiServer, made: Make) -> None:
    server.faults = [("GET", NODE, "hang")]
    outcome = made(timeout_seconds=0.2).apply(ask())
    assert said(outcome) == (False, True)
    assert "imeout" in outcome.detail
    assert (server.changes(), server.evicted()) == ([], [])


def test_an_answer_about_other_nodes_evicts_nobody(server: ApiServer, made: Make) -> None:
    """As from a proxy that drops the field selector."""
    server.pods["elsewhere"] = pod("elsewhere")
    server.pods["elsewhere"]["spec"]["nodeName"] = "n00002"
    assert said(made().apply(ask())) == (False, False)
    assert server.evicted() == []


@pytest.mark.parametrize(
    "target", ["n1; reboot", "$(reboot)", "../secrets", "n1\nx", "", "N1", "n1?x=1", "n1#", "n" * 300, "n1/../../x"]
)
def test_a_hostile_name_reaches_no_address(server: ApiServer, made: Make, target: str) -> None:
    outcome = made().apply(ask(target=target if target != "n1/../../x" else "n1%2f.."))
    assert said(outcome) == (False, False)
    assert server.asked == []


# People


def test_a_node_that_a_person_cordoned_is_left_alone(server: ApiServer, made: Make) -> None:
    server.node = node(unschedulable=True)
    assert said(made().apply(ask())) == (False, True)
    assert said(made().apply(back())) == (False, False)
    assert (server.changes(), server.evicted()) == ([], [])


def test_a_person_who_uncordons_in_the_middle_stops_the_drain(server: ApiServer, made: Make) -> None:
    server.budget = 1000
    executor = made()

    def uncordon(_: float) -> None:
        server.node["spec"].pop("unschedulable")

    stopped = KubernetesExecutor(settings=executor.settings, sleep=uncordon, clock=executor.clock).apply(ask())
    assert said(stopped) == (False, False)
    assert "changed by somebody" in stopped.detail
    assert server.evicted() == ["rank-0", "rank-1"]  # of the first look


@pytest.mark.parametrize(
    "changes",
    [
        {"unschedulable": False},  # kubectl uncordon leaves the taint
        {"taints": (k8s.CORDON_TAINT,)},  # somebody took our taint away, and left it cordoned
        {"taints": ({**OURS[0], "value": "act-0"},)},
    ],
)
def test_what_a_person_changed_since_is_not_returned(server: ApiServer, made: Make, changes: Any) -> None:
    server.node = drained(**changes)
    assert said(made().apply(back())) == (False, False)
    assert server.changes() == []


def test_a_return_undoes_one_drain_of_ours_and_nothing_else(server: ApiServer, made: Make) -> None:
    server.node = drained()
    assert said(made().apply(back("act-0"))) == (False, False)
    assert said(made().apply(back(""))) == (False, False)
    server.faults = [("PATCH", NODE, k8s.STALE)]
    assert said(made().apply(back())) == (True, False)
    assert "unschedulable" not in server.node["spec"]
    assert server.node["spec"]["taints"] == [k8s.GPU_TAINT, k8s.CORDON_TAINT]  # that one Kubernetes itself takes off
    assert server.node["metadata"]["labels"].get("hotspare/drained-by") is None


def test_a_node_in_service_is_returned_already(server: ApiServer, made: Make) -> None:
    assert said(made().apply(back())) == (True, False)
    assert server.changes() == []


# After a crash


@pytest.mark.parametrize(
    ("found", "pods", "done"),
    [
        (drained(), [], True),
        (drained(), ["rank-0"], False),
        (node(), ["rank-0"], False),  # it was never begun
        (drained(unschedulable=False), [], False),  # a person has it back
    ],
)
def test_the_node_says_what_became_of_a_drain(
    server: ApiServer, made: Make, found: Any, pods: list[str], *, done: bool
) -> None:
    server.node, server.pods = found, {name: pod(name) for name in pods}
    outcome = made().outcome_of("act-1")
    assert outcome is not None
    assert said(outcome) == (done, False)
    assert (server.changes(), server.evicted()) == ([], [])


def test_a_return_is_known_by_its_own_id(server: ApiServer, made: Make) -> None:
    server.node = drained()
    made().apply(back())
    outcome = made().outcome_of("act-2")
    assert outcome is not None
    assert outcome.done


@pytest.mark.parametrize("fault", ["drop", (200, b"{}"), k8s.FORBIDDEN, (500, b"boom")])
@pytest.mark.parametrize("path", ["/api/v1/nodes", "/api/v1/pods"])
def test_a_lookup_that_failed_says_nothing(server: ApiServer, made: Make, path: str, fault: Any) -> None:
    server.node, server.pods = drained(), {}
    server.faults = [("GET", path, fault)]
    assert made().outcome_of("act-1") is None


def test_a_drain_that_a_crash_cut_short_is_not_begun_again_by_asking(server: ApiServer, made: Make) -> None:
    def killed(_: float) -> None:
        raise KeyboardInterrupt

    server.budget = 1000
    executor = made()
    with pytest.raises(KeyboardInterrupt):
        KubernetesExecutor(settings=executor.settings, sleep=killed, clock=executor.clock).apply(ask())
    before = len(server.evicted())
    outcome = made().outcome_of("act-1")
    assert outcome is not None
    assert said(outcome) == (False, False)
    assert len(server.evicted()) == before


# Settings


def test_settings_name_it_for_what_it_does_and_need_a_configuration(made: Make, tmp_path: Path) -> None:
    chosen = made().settings

    def settings(kind: Any, kubernetes: KubernetesSettings) -> Settings:
        return Settings(executors=ExecutorSettings(by_kind={kind: "kubernetes"}, kubernetes=kubernetes))

    assert isinstance(executors_from(settings("drain_node", chosen))["drain_node"], KubernetesExecutor)
    with pytest.raises(SettingsError, match=r"reboot_node: kubernetes does drain_node, return_to_service"):
        executors_from(settings("reboot_node", chosen))
    for path in (tmp_path / "missing", None):  # None: not in a pod here
        with pytest.raises(SettingsError, match=r"executors\.kubernetes: "):
            executors_from(settings("drain_node", chosen.model_copy(update={"kubeconfig": path})))
    broken = tmp_path / "broken"
    broken.write_text("clusters: [")
    with pytest.raises(SettingsError, match=r"executors\.kubernetes: .*broken"):
        executors_from(settings("drain_node", chosen.model_copy(update={"kubeconfig": broken})))
