"""An API server for one node and its pods, as far as a drain needs it: real shapes, real rules, and faults on demand.

Shapes and messages are those of the API reference (v1.34: Node, NodeList, PodList, Eviction, Status). A fault is told
once for a method and the end of a path: a status with its body, "hang" (no answer in time), "drop" (the connection is
closed instead of an answer), or "lose" (done, and the connection is closed).
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Document = dict[str, Any]
NODE = "n00001"
NODE_PATH = f"/nodes/{NODE}"
CORDON_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": "2026-03-01T12:00:00Z"}
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
OURS = ({"key": "hotspare/drained", "value": "act-1", "effect": "NoSchedule"},)


def status(code: int, reason: str, message: str, **details: Any) -> tuple[int, bytes]:
    failure = {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": reason, "details": details, "code": code,
    }  # fmt: skip
    return code, json.dumps(failure).encode()


FORBIDDEN = status(
    403, "Forbidden",
    'nodes "n00001" is forbidden: User "system:serviceaccount:hotspare:hotspare" cannot patch resource "nodes" in API '
    'group "" at the cluster scope', name=NODE, kind="nodes",
)  # fmt: skip
NOT_FOUND = status(404, "NotFound", 'nodes "n00001" not found', name=NODE, kind="nodes")
STALE = status(
    409, "Conflict",
    'Operation cannot be fulfilled on nodes "n00001": the object has been modified; please apply your changes to the '
    "latest version and try again", name=NODE, kind="nodes",
)  # fmt: skip
BUDGET = status(
    429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.",
    causes=[
        {"reason": "DisruptionBudget", "message": "The disruption budget rank needs 8 healthy pods and has 8 currently"}
    ],
)  # fmt: skip
NO_EVICTION = status(
    403, "Forbidden", 'pods "rank-0" is forbidden: User "u" cannot create resource "pods/eviction" in API group ""'
)
TWO_BUDGETS = status(
    500, "InternalError",
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
)  # fmt: skip


def node(
    *, unschedulable: bool = False, taints: tuple[Document, ...] = (GPU_TAINT,), ready: str | None = "True"
) -> Document:
    """ready: None for a node that has no conditions yet."""
    return {
        "kind": "Node", "apiVersion": "v1",
        "metadata": {
            "name": NODE, "uid": "f1c5e8b2-0001", "resourceVersion": "1000",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"kubernetes.io/hostname": NODE, "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
            "annotations": {"node.alpha.kubernetes.io/ttl": "0"},
            "managedFields": [{"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:status": {}}}],
        },
        "spec": {
            "podCIDR": "10.244.1.0/24", "taints": [dict(taint) for taint in taints],
            **({"unschedulable": True} if unschedulable else {}),
        },
        "status": {
            "capacity": {"cpu": "192", "nvidia.com/gpu": "8", "pods": "110"},
            "conditions": [] if ready is None else [
                {"type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory"},
                {"type": "Ready", "status": ready, "reason": "KubeletReady"},
            ],
            "nodeInfo": {"kubeletVersion": "v1.34.1", "operatingSystem": "linux"},
        },
    }  # fmt: skip


def drained(**changes: Any) -> Document:
    """As a drain of ours leaves it, with the taint that Kubernetes itself adds to a cordoned node."""
    found = node(**{"unschedulable": True, "taints": (GPU_TAINT, CORDON_TAINT, *OURS), **changes})
    found["metadata"]["labels"]["hotspare/drained-by"] = "act-1"
    return found


def pod(name: str, owner: str | None = "PyTorchJob", phase: str = "Running", **annotations: str) -> Document:
    owners = [{"apiVersion": "v1", "kind": owner, "name": "o", "uid": "o-1", "controller": True}] if owner else []
    return {
        "metadata": {
            "name": name, "namespace": "train", "uid": f"uid-{name}", "resourceVersion": "77",
            "ownerReferences": owners, "annotations": annotations, "creationTimestamp": "2026-03-01T00:00:00Z",
        },
        "spec": {"nodeName": NODE, "containers": [{"name": "main", "image": "train:1"}]},
        "status": {"phase": phase, "qosClass": "Guaranteed", "conditions": [{"type": "Ready", "status": "True"}]},
    }  # fmt: skip


class WrongRequestError(Exception):
    """What the executor should never have asked."""


@dataclass
class ApiServer:
    """budget: so many evictions are refused first. stuck: evicted pods only begin to end. asked: method, path, body.

    wrong: what the executor should never have asked, which is answered with 400.
    """

    node: Document = field(default_factory=node)
    pods: dict[str, Document] = field(default_factory=dict)
    faults: list[tuple[str, str, Any]] = field(default_factory=list)
    budget: int = 0
    stuck: bool = False
    asked: list[tuple[str, str, Any]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    address: str = ""
    over: threading.Event = field(default_factory=threading.Event)

    def evicted(self) -> list[str]:
        return [path.split("/")[-2] for method, path, _ in self.asked if method == "POST"]

    def changes(self) -> list[Any]:
        return [body for method, _, body in self.asked if method == "PATCH"]

    def fault(self, method: str, path: str) -> Any:
        for number, (wanted, end, answer) in enumerate(self.faults):
            if wanted == method and path.endswith(end):
                del self.faults[number]
                return answer
        return None

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, bytes]:
        if method == "POST":
            return self._evict(path.split("/")[-2], body)
        if path == f"/api/v1/nodes/{NODE}":
            return self._patch(body) if method == "PATCH" else (200, json.dumps(self.node).encode())
        if path.startswith("/api/v1/nodes/"):
            return NOT_FOUND
        if path == "/api/v1/nodes":
            label, _, value = query["labelSelector"][0].partition("=")
            found = [self.node] if self.node["metadata"]["labels"].get(label) == value else []
            return self.list_of(
                "NodeList", [{k: v for k, v in one.items() if k not in ("kind", "apiVersion")} for one in found]
            )
        if query.get("fieldSelector") != [f"spec.nodeName={NODE}"]:
            raise WrongRequestError(f"{path} with {query}")
        return self.list_of("PodList", list(self.pods.values()))

    @staticmethod
    def list_of(kind: str, items: list[Document]) -> tuple[int, bytes]:
        told = {"kind": kind, "apiVersion": "v1", "metadata": {"resourceVersion": "2000"}, "items": items}
        return 200, json.dumps(told).encode()

    def _patch(self, body: Document) -> tuple[int, bytes]:
        """A strategic merge of what a drain touches; spec.taints is an atomic list."""
        meta, spec = self.node["metadata"], self.node["spec"]
        if body["metadata"]["resourceVersion"] != meta["resourceVersion"]:
            return STALE
        for place, news in ((meta["labels"], body["metadata"]["labels"]), (spec, body["spec"])):
            for name, value in news.items():
                place.pop(name, None)
                if value is not None:
                    place[name] = value
        self.touch()
        return 200, json.dumps(self.node).encode()

    def touch(self) -> None:
        meta = self.node["metadata"]
        meta["resourceVersion"] = str(int(meta["resourceVersion"]) + 1)

    def _evict(self, name: str, body: Document) -> tuple[int, bytes]:
        if (body["apiVersion"], body["kind"], body["metadata"]["name"]) != ("policy/v1", "Eviction", name):
            raise WrongRequestError(f"eviction of {name} as {body}")
        wanted = body["deleteOptions"]["preconditions"]["uid"]
        found = self.pods.get(name)
        if found is None:
            return status(404, "NotFound", f'pods "{name}" not found', name=name, kind="pods")
        there = found["metadata"]["uid"]
        if wanted != there:
            why = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {there}"
            return status(409, "Conflict", why, name=name, kind="pods")
        if self.budget:
            self.budget -= 1
            return BUDGET
        if self.stuck:
            found["metadata"]["deletionTimestamp"] = "2026-03-01T12:01:00Z"
        else:
            del self.pods[name]
        return 201, json.dumps(
            {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
        ).encode()


@contextmanager
def serving(kept: ApiServer) -> Iterator[ApiServer]:
    class Answer(BaseHTTPRequestHandler):
        def _take(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"] or 0))
            parts = urlsplit(self.path)
            path, body = unquote(parts.path), json.loads(text) if text else None
            kept.asked.append((self.command, path, body))
            fault = kept.fault(self.command, path)
            if fault in ("hang", "drop"):
                kept.over.wait(5 if fault == "hang" else 0)
                self.close_connection = True
                return
            query = parse_qs(parts.query)
            try:
                code, told = fault if isinstance(fault, tuple) else kept.answer(self.command, path, query, body)
            except (WrongRequestError, LookupError, TypeError) as error:  # in this thread no test would see it
                kept.wrong.append(f"{self.command} {path}: {error!r}")
                code, told = status(400, "BadRequest", str(error))
            if fault == "lose":
                self.close_connection = True
                return
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        do_GET = do_PATCH = do_POST = _take  # noqa: N815 - the names that http.server looks for

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as running:
        kept.address = f"http://127.0.0.1:{running.server_address[1]}"
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield kept
        finally:
            kept.over.set()
            running.shutdown()
            thread.join()
