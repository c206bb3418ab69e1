"""What the Kubernetes executor says to the API server, through the official client, and what it takes for an answer.

Answers are decoded strictly: a list without its kind is no empty list, a pod of another node is no pod of this one.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import msgspec

from pipelines.recovery.executors.settings import KubernetesSettings

GONE, CONFLICT, REFUSED_FOR_NOW = 404, 409, 429
T = TypeVar("T")


class ApiTrouble(Exception):
    """One line. status: the server's; None when nothing, or nothing that can be read, came back."""

    def __init__(self, status: int | None, detail: str) -> None:
        super().__init__(detail)
        self.status = status

    @property
    def decided(self) -> bool:
        """The server has said no, so that nothing was changed. Otherwise it may have been."""
        return self.status is not None and 400 <= self.status < 500


class Owner(msgspec.Struct):
    kind: str
    controller: bool = False


class Meta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    deletion_timestamp: str | None = None
    owner_references: list[Owner] = []


class NodeSpec(msgspec.Struct):
    """taints: as they came, since they go back as a whole."""

    unschedulable: bool = False
    taints: list[dict[str, Any]] = []


class Condition(msgspec.Struct):
    type: str
    status: str


class NodeStatus(msgspec.Struct):
    conditions: list[Condition] = []


class Node(msgspec.Struct):
    metadata: Meta
    spec: NodeSpec
    kind: Literal["Node"] = "Node"
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)

    @property
    def lost(self) -> bool:
        """Its kubelet has fallen silent. One that says "False" is alive, and so can say that its pods have ended."""
        return any(one.type == "Ready" and one.status == "Unknown" for one in self.status.conditions)


class PodSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class PodStatus(msgspec.Struct):
    phase: str


class Pod(msgspec.Struct):
    metadata: Meta
    spec: PodSpec
    status: PodStatus
    kind: Literal["Pod"] = "Pod"


class ListMeta(msgspec.Struct):
    more: str = msgspec.field(name="continue", default="")


class NodeList(msgspec.Struct):
    kind: Literal["NodeList"]
    items: list[Node]
    metadata: ListMeta


class PodList(msgspec.Struct):
    kind: Literal["PodList"]
    items: list[Pod]
    metadata: ListMeta


class Status(msgspec.Struct):
    kind: Literal["Status"]
    message: str = ""


@dataclass(frozen=True)
class Api:
    """core: the client's CoreV1Api. All methods raise ApiTrouble."""

    core: Any
    timeout_seconds: float

    def node(self, name: str) -> Node:
        node = self._ask(f"node {name}", Node, self.core.read_node, name)
        if node.metadata.name != name:
            raise ApiTrouble(None, f"node {name}: the answer is about {node.metadata.name!r}")
        return node

    def change(self, node: Node, *, unschedulable: bool, taints: list[dict[str, Any]], labels: dict[str, Any]) -> None:
        """All or nothing, and only if nobody has changed the node since it was read."""
        body = {
            "metadata": {"resourceVersion": node.metadata.resource_version, "labels": labels},
            "spec": {"unschedulable": unschedulable or None, "taints": taints or None},
        }
        self._ask(f"change of node {node.metadata.name}", Node, self.core.patch_node, node.metadata.name, body)

    def nodes_labelled(self, label: str, value: str) -> list[Node]:
        found = self._ask(f"nodes with {label}", NodeList, self.core.list_node, label_selector=f"{label}={value}")
        if found.metadata.more or any(node.metadata.labels.get(label) != value for node in found.items):
            raise ApiTrouble(None, f"nodes with {label}: an answer to something else")
        return found.items

    def pods(self, node: str, namespace: str) -> list[Pod]:
        """All pods of a node, or those of one namespace."""
        chosen = {"field_selector": f"spec.nodeName={node}"}
        if namespace:
            found = self._ask(f"pods of {node}", PodList, self.core.list_namespaced_pod, namespace, **chosen)
        else:
            found = self._ask(f"pods of {node}", PodList, self.core.list_pod_for_all_namespaces, **chosen)
        if found.metadata.more or any(pod.spec.node_name != node for pod in found.items):
            raise ApiTrouble(None, f"pods of {node}: an answer to something else")
        return found.items

    def evict(self, pod: Pod, grace_seconds: int | None) -> None:
        """Only the pod that was seen: one that has come back under the same name elsewhere is left alone."""
        options: dict[str, Any] = {"preconditions": {"uid": pod.metadata.uid}}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        name, namespace = pod.metadata.name, pod.metadata.namespace
        body = {
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": options,
        }  # fmt: skip
        self._ask(
            f"eviction of {namespace}/{name}", Status, self.core.create_namespaced_pod_eviction, name, namespace, body
        )

    def _ask(self, what: str, kind: type[T], call: Callable[..., Any], *arguments: Any, **named: Any) -> T:
        from kubernetes.client import ApiException  # noqa: PLC0415 - an optional package, a second to import
        from urllib3.exceptions import HTTPError  # noqa: PLC0415 - same

        each = (self.timeout_seconds, self.timeout_seconds)  # a single number that is no int would be no timeout
        try:
            answer = call(*arguments, **named, _preload_content=False, _request_timeout=each)
            body = answer.data
            answer.release_conn()
        except ApiException as error:
            raise ApiTrouble(error.status or None, f"{what}: {_said(error.body, error.reason)}") from None
        except HTTPError as error:
            raise ApiTrouble(None, f"{what}: {type(error).__name__}: {error}"[:300]) from None
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.DecodeError:
            raise ApiTrouble(None, f"{what}: an answer that cannot be read") from None


def _said(body: bytes | None, reason: object) -> str:
    """The message of a Status object, else what the HTTP status line says."""
    try:
        text = msgspec.json.decode(body or b"", type=Status).message
    except msgspec.DecodeError:
        text = ""
    return " ".join((text or str(reason)).split())[:300]


@contextmanager
def connected(settings: KubernetesSettings) -> Iterator[Api]:
    """Raises ApiTrouble when there is no usable configuration; nothing is asked of the server yet."""
    from kubernetes import client, config  # noqa: PLC0415 - an optional package, a second to import
    from yaml import YAMLError  # noqa: PLC0415 - comes with it

    chosen = client.Configuration()
    chosen.retries = False  # what is tried again is decided here
    path = settings.kubeconfig
    where = "in-cluster configuration" if path is None else str(path)
    try:
        if path is None:
            config.load_incluster_config(client_configuration=chosen)
        else:
            config.load_kube_config(
                str(path), context=settings.context, client_configuration=chosen, persist_config=False
            )
    except (config.ConfigException, OSError) as error:
        raise ApiTrouble(None, f"{where}: {' '.join(str(error).split())[:300]}") from None
    except (YAMLError, ValueError, TypeError, AttributeError) as error:
        # The client takes a document for what it should be. What it says then may quote the file, which holds secrets.
        raise ApiTrouble(None, f"{where}: no configuration that can be read ({type(error).__name__})") from None
    with client.ApiClient(chosen) as open_client:
        try:
            yield Api(client.CoreV1Api(open_client), settings.timeout_seconds)
        finally:
            open_client.rest_client.pool_manager.clear()  # the client leaves its sockets to the garbage collector
