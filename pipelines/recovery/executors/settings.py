"""Who carries out which kind of action. Secrets come from files or the environment, never from the settings."""

import errno
import os
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from schemas.action import ActionKind

Who = Literal["log", "slurm", "webhook", "kafka", "redfish", "kubernetes"]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def secret(file: Path | None, variable: str) -> str:
    """From the file, else from the environment; empty when there is neither. Raises OSError, which names the file."""
    if file is None:
        return os.environ.get(variable, "")
    try:
        return file.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        raise OSError(errno.EILSEQ, "not text in UTF-8: a secret is one line of it", str(file)) from None


class SlurmSettings(_Section):
    scontrol: str = "scontrol"
    timeout_seconds: float = Field(default=10.0, gt=0, le=600)


class WebhookSettings(_Section):
    """secret_file: else HOTSPARE_WEBHOOK_SECRET; without either, requests are not signed."""

    url: str = Field(default="", pattern=r"^(https?://\S+)?$")
    secret_file: Path | None = None
    timeout_seconds: float = Field(default=5.0, gt=0, le=600)
    tries: int = Field(default=3, ge=1, le=10)
    ca_file: str | None = None


class TopicSettings(_Section):
    topic: str = "hotspare.actions"


class RedfishSettings(_Section):
    """address: of a node's management controller, with {node} in it. password_file: else HOTSPARE_REDFISH_PASSWORD.
    timeout_seconds: of an answer. deadline_seconds: for all nodes of an action; what is left then is not reached.
    """

    address: str = "https://{node}-bmc"
    username: str = ""
    password_file: Path | None = None
    watts_limit: float = Field(default=10200.0, gt=0)
    timeout_seconds: float = Field(default=10.0, gt=0, le=600)
    deadline_seconds: float = Field(default=45.0, gt=0, le=600)
    ca_file: str | None = None


class KubernetesSettings(_Section):
    """Needs the extra of that name, and may get, list and patch nodes, list pods, and create pods/eviction.

    kubeconfig, context: without a file the configuration of the pod that this runs in. name: what a node is called in
    Kubernetes, with {node} in it; names: node -> name, where that is not so. namespace: only its pods are evicted and
    looked for; all of them without one. taint_effect: NoExecute makes pods go at once that do not tolerate it,
    whatever their disruption budgets say. grace_seconds: for each pod, instead of its own. deadline_seconds: of a whole
    drain, which nobody waits for: it is begun, and looked after on later turns. timeout_seconds: of an answer.
    deadline_seconds and four answers must be less than recovery.unanswered_seconds.
    """

    kubeconfig: Path | None = None
    context: str | None = None
    name: str = Field(default="{node}", pattern=r"\{node\}")
    names: dict[str, str] = Field(default_factory=dict)
    namespace: str = Field(default="", pattern=r"^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$")
    taint_effect: Literal["NoSchedule", "NoExecute"] = "NoSchedule"
    grace_seconds: int | None = Field(default=None, ge=0, le=3600)
    deadline_seconds: float = Field(default=30.0, gt=0, le=600)
    timeout_seconds: float = Field(default=5.0, gt=0, le=600)


class ExecutorSettings(_Section):
    """Section `executors`. by_kind: kind of action -> who; the others are written to the action log."""

    by_kind: dict[ActionKind, Who] = Field(default_factory=dict)
    slurm: SlurmSettings = SlurmSettings()
    webhook: WebhookSettings = WebhookSettings()
    kafka: TopicSettings = TopicSettings()
    redfish: RedfishSettings = RedfishSettings()
    kubernetes: KubernetesSettings = KubernetesSettings()
