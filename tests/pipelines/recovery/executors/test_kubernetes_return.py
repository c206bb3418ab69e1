"""Whose node it is, the way back, what is known after a crash, and the settings."""

from pathlib import Path
from typing import Any

import pytest

from pipelines.recovery.executors.choose import executors_from
from pipelines.recovery.executors.kubernetes import KubernetesExecutor
from pipelines.recovery.executors.settings import ExecutorSettings, KubernetesSettings
from pipelines.recovery.settings import RecoverySettings
from pipelines.settings import Settings, SettingsError
from tests.pipelines.recovery.executors import kubernetes_server as k8s
from tests.pipelines.recovery.executors.kubernetes_requests import Make, ask, back, said
from tests.pipelines.recovery.executors.kubernetes_server import ApiServer, node, pod

# Whose node it is


def test_a_node_that_a_person_cordoned_is_left_alone(cluster: ApiServer, made: Make) -> None:
    cluster.node = node(unschedulable=True)
    assert said(made().apply(ask())) == (False, True)
    assert said(made().apply(back())) == (False, False)
    assert (cluster.changes(), cluster.evicted()) == ([], [])


@pytest.mark.parametrize(
    "changes",
    [
        {"unschedulable": False},  # kubectl uncordon leaves the taint
        {"taints": (k8s.CORDON_TAINT,)},  # somebody took our taint away, and left it cordoned
        {"taints": ({**k8s.OURS[0], "value": "act-0"},)},
    ],
)
def test_what_a_person_changed_since_is_not_returned(cluster: ApiServer, made: Make, changes: Any) -> None:
    cluster.node = k8s.drained(**changes)
    assert said(made().apply(back())) == (False, False)
    assert cluster.changes() == []


def test_a_return_undoes_one_drain_of_ours_and_nothing_else(cluster: ApiServer, made: Make) -> None:
    cluster.node = k8s.drained()
    assert said(made().apply(back("act-0"))) == (False, False)
    assert said(made().apply(back(""))) == (False, False)
    cluster.faults = [("PATCH", k8s.NODE_PATH, k8s.STALE)]
    assert said(made().apply(back())) == (True, False)
    assert "unschedulable" not in cluster.node["spec"]
    assert cluster.node["spec"]["taints"] == [k8s.GPU_TAINT, k8s.CORDON_TAINT]  # that one Kubernetes itself takes off
    assert cluster.node["metadata"]["labels"].get("hotspare/drained-by") is None


def test_a_node_in_service_is_returned_already(cluster: ApiServer, made: Make) -> None:
    assert said(made().apply(back())) == (True, False)
    assert cluster.changes() == []


# After a crash


@pytest.mark.parametrize(
    ("found", "pods", "done"),
    [
        (k8s.drained(), [], True),
        (k8s.drained(), ["rank-0"], False),
        (node(), ["rank-0"], False),  # it was never begun
        (k8s.drained(unschedulable=False), [], False),  # a person has it back
    ],
)
def test_the_node_says_what_became_of_a_drain(
    cluster: ApiServer, made: Make, found: Any, pods: list[str], *, done: bool
) -> None:
    cluster.node, cluster.pods = found, {name: pod(name) for name in pods}
    outcome = made().outcome_of("act-1")
    assert outcome is not None
    assert said(outcome) == (done, False)
    assert (cluster.changes(), cluster.evicted()) == ([], [])


def test_a_return_is_known_by_its_own_id(cluster: ApiServer, made: Make) -> None:
    cluster.node = k8s.drained()
    made().apply(back())
    outcome = made().outcome_of("act-2")
    assert outcome is not None
    assert outcome.done


@pytest.mark.parametrize("fault", ["drop", (200, b"{}"), k8s.FORBIDDEN, (500, b"boom")])
@pytest.mark.parametrize("path", ["/api/v1/nodes", "/api/v1/pods"])
def test_a_lookup_that_failed_says_nothing(cluster: ApiServer, made: Make, path: str, fault: Any) -> None:
    cluster.node, cluster.pods = k8s.drained(), {}
    cluster.faults = [("GET", path, fault)]
    assert made().outcome_of("act-1") is None


def test_a_drain_that_a_crash_cut_short_is_not_begun_again_by_asking(cluster: ApiServer, made: Make) -> None:
    cluster.budget = 1000
    assert made().apply(ask()).under_way  # and nobody lives to write it down
    before = len(cluster.evicted())
    outcome = made().outcome_of("act-1")
    assert outcome is not None
    assert said(outcome) == (False, False)
    assert len(cluster.evicted()) == before


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


USER = "apiVersion: v1\ncurrent-context: c\nclusters: [{name: c, cluster: {server: 'https://k'%s}}]\n"
USER += "users: [{name: u, user: {token: s3cret}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"clusters: [s3cret", "ParserError"),
        (b"[s3cret]", "TypeError"),
        (b"s3cret", "TypeError"),
        (b"\xff\xfe s3cret", "UnicodeDecodeError"),
        ((USER % ", certificate-authority-data: a").encode(), "Error"),  # binascii's: no base64
        (USER.replace("'https://k'%s", "12").encode(), "AttributeError"),
    ],
)
def test_a_broken_kubeconfig_is_one_line_that_quotes_nothing_of_it(
    made: Make, tmp_path: Path, content: bytes, why: str
) -> None:
    broken = tmp_path / "broken"
    broken.write_bytes(content)
    kubernetes = made().settings.model_copy(update={"kubeconfig": broken})
    with pytest.raises(SettingsError) as refused:
        executors_from(drains_by(kubernetes))
    assert str(refused.value) == f"executors.kubernetes: {broken}: no configuration that can be read ({why})"


def test_a_drain_must_end_before_its_intent_is_taken_for_what_a_crash_left(made: Make) -> None:
    slow = made(deadline_seconds=40, timeout_seconds=5).settings  # 40 + 4 * 5
    for unanswered in (0, 59, 60):
        with pytest.raises(SettingsError, match=r"executors\.kubernetes: an action may take 60 s \(deadline_seconds"):
            executors_from(drains_by(slow, unanswered_seconds=unanswered))
    assert executors_from(drains_by(slow, unanswered_seconds=60.5))
    config = slow.kubeconfig
    assert executors_from(drains_by(KubernetesSettings(kubeconfig=config)))  # as it is set by default


def drains_by(kubernetes: KubernetesSettings, **recovery: Any) -> Settings:
    executors = ExecutorSettings(by_kind={"drain_node": "kubernetes"}, kubernetes=kubernetes)
    return Settings(executors=executors, recovery=RecoverySettings(**recovery))
