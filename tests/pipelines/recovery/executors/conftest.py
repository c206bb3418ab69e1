from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.recovery.executors.kubernetes import KubernetesExecutor
from pipelines.recovery.executors.settings import KubernetesSettings
from tests.pipelines.recovery.executors.kubernetes_requests import Make
from tests.pipelines.recovery.executors.kubernetes_server import ApiServer, pod, serving


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    """One node with two pods. What the executor should never have asked fails the test."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(ApiServer()) as kept:
        kept.pods = {name: pod(name) for name in ("rank-0", "rank-1")}
        yield kept
    assert kept.wrong == []


@pytest.fixture
def made(cluster: ApiServer, tmp_path: Path) -> Make:
    config = tmp_path / "kubeconfig"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        f"clusters: [{{name: c, cluster: {{server: '{cluster.address}'}}}}]\n"
        "users: [{name: u, user: {token: t0ken}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
    )

    def make(**changes: Any) -> KubernetesExecutor:
        settings = KubernetesSettings(kubeconfig=config, **{"deadline_seconds": 10, **changes})
        return KubernetesExecutor(settings=settings)

    return make
