"""Kubernetes: nodes are cordoned, tainted and drained by eviction, and only what carries our mark is undone.

The mark (a label with the action's id), the taint and the cordon are one change, made only if nobody has changed the
node since it was read. Drained is: every pod that has to go is seen gone. Pods go by the Eviction API alone, so a
PodDisruptionBudget is waited for until the deadline; those of DaemonSets, mirror pods and finished ones stay. A node
that a person has cordoned, or has changed since, is the person's. Nothing here asks for a pod without a grace period
to be forgotten (force deletion, out-of-service taint): on a host that may still run it that is for a person.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipelines.recovery.executors.contract import ActionOutcome
from pipelines.recovery.executors.kubernetes_api import (
    CONFLICT,
    GONE,
    REFUSED_FOR_NOW,
    Api,
    ApiTrouble,
    Node,
    Pod,
    connected,
)
from pipelines.recovery.executors.names import plain
from pipelines.recovery.executors.settings import KubernetesSettings
from schemas.action import ActionRequest
from schemas.topology import node_of

KINDS = ("drain_node", "return_to_service")
DRAINED_BY, RETURNED_BY = "hotspare/drained-by", "hotspare/returned-by"  # labels: unlike annotations they can be asked
TAINT = "hotspare/drained"
MIRROR = "kubernetes.io/config.mirror"
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")  # a DNS subdomain, which every name of a node is
TRIES = 5  # of a change that others cross


@dataclass(frozen=True, kw_only=True)
class KubernetesExecutor:
    """A drain is begun and left; what is still there is evicted again, and looked for, on later turns."""

    settings: KubernetesSettings

    def apply(self, request: ActionRequest) -> ActionOutcome:
        node = self._named(node_of(request.target))
        if node is None:
            return ActionOutcome(done=False, detail=f"{request.target!r} is no name of a Kubernetes node")
        try:
            with connected(self.settings) as api:
                match request.kind:
                    case "drain_node":
                        return self._drain(api, node, request.id)
                    case "return_to_service":
                        return _return(api, node, request.id, str(request.parameters.get("undoes", "")))
        except ApiTrouble as trouble:  # only what was asked before anything was changed comes up to here
            return ActionOutcome(done=False, recoverable=True, detail=str(trouble))
        return ActionOutcome(done=False, detail=f"Kubernetes does not do {request.kind}")

    def carry_on(self, request: ActionRequest, seconds: float) -> ActionOutcome:
        node = self._named(node_of(request.target))
        if node is None or request.kind != "drain_node":
            return ActionOutcome(done=False, detail=f"no drain of {request.target!r} is under way")
        try:
            with connected(self.settings) as api:
                return self._emptied(api, node, request.id, seconds)
        except ApiTrouble as trouble:
            return self._waiting(node, seconds, str(trouble))

    def outcome_of(self, request_id: str) -> ActionOutcome | None:
        """By the node that carries its id. None when the server could not be asked: that says nothing of the node."""
        if plain(request_id) is None:
            return None
        try:
            with connected(self.settings) as api:
                drained = next(iter(api.nodes_labelled(DRAINED_BY, request_id)), None)
                returned = next(iter(api.nodes_labelled(RETURNED_BY, request_id)), None)
                pods = [] if drained is None else api.pods(drained.metadata.name, self.settings.namespace)
        except ApiTrouble:
            return None
        if returned is not None:
            return ActionOutcome(done=True, detail=f"{returned.metadata.name} was returned by it")
        if drained is None:
            return ActionOutcome(done=False, detail=f"no node carries {request_id}: not begun, or undone by hand")
        name = drained.metadata.name
        stands = self._stands(drained, request_id, pods)
        return stands or ActionOutcome(
            done=False, detail=f"{name} is cordoned, and {len(_to_go(pods))} pods are still there"
        )

    def _named(self, node: str) -> str | None:
        """The name in Kubernetes, if it is one at all."""
        if plain(node) is None:
            return None
        name = self.settings.names.get(node, self.settings.name.replace("{node}", node))
        return name if NAME.fullmatch(name) else None

    def _drain(self, api: Api, name: str, action: str) -> ActionOutcome:
        taint = {"key": TAINT, "value": action, "effect": self.settings.taint_effect}

        def cordon(node: Node) -> _Change | ActionOutcome:
            if _ours(node, action):
                return ActionOutcome(done=True)
            if node.spec.unschedulable and not _ours(node):
                why = f"{name} was cordoned by somebody else and is left alone"
                return ActionOutcome(done=False, recoverable=True, detail=why)
            marks = {DRAINED_BY: action, RETURNED_BY: None}
            return _Change(unschedulable=True, taints=[*_others(node), taint], labels=marks)

        cordoned = _changed(api, name, cordon)
        return self._emptied(api, name, action, 0.0) if cordoned.done else cordoned

    def _emptied(self, api: Api, name: str, action: str, seconds: float) -> ActionOutcome:
        """Evict once what has to go, and look again: whether all is gone, somebody has stepped in, the server says no,
        or time is up.
        """
        refused = ""
        try:
            pods = api.pods(name, self.settings.namespace)
            outcome = self._stands(api.node(name), action, pods)
            if outcome is None:
                refused = self._evict(api, _to_go(pods))
                pods = api.pods(name, self.settings.namespace)
                outcome = self._stands(api.node(name), action, pods)
        except ApiTrouble as trouble:
            if trouble.decided and trouble.status != REFUSED_FOR_NOW:
                return ActionOutcome(done=False, detail=f"{name} stays cordoned: {trouble}")
            return self._waiting(name, seconds, str(trouble))
        said = f"{len(_to_go(pods))} pods are still there{refused and f'; {refused}'}"
        return outcome or self._waiting(name, seconds, said)

    def _waiting(self, name: str, seconds: float, said: str) -> ActionOutcome:
        if seconds >= self.settings.deadline_seconds:
            waited = f"after {self.settings.deadline_seconds:g} s {said}"
            return ActionOutcome(done=False, detail=f"{name} stays cordoned: {waited}")
        return ActionOutcome(done=False, under_way=True, detail=f"{name} is cordoned, {said}")

    def _evict(self, api: Api, pods: Sequence[Pod]) -> str:
        """Asks once for each that is not on its way; the last answer that was neither yes nor gone. Raises ApiTrouble
        for a final no, and when nobody answers: that is one answer's time, not one for each pod.
        """
        said = ""
        for pod in pods:
            if pod.metadata.deletion_timestamp is not None:
                continue
            try:
                api.evict(pod, self.settings.grace_seconds)
            except ApiTrouble as trouble:
                if not trouble.decided or trouble.status not in (GONE, CONFLICT, REFUSED_FOR_NOW):
                    raise
                said = said if trouble.status in (GONE, CONFLICT) else str(trouble)
        return said

    def _stands(self, node: Node, action: str, pods: Sequence[Pod]) -> ActionOutcome | None:
        """The outcome of a drain as the node and its pods look; None while there is something to wait for."""
        name, left = node.metadata.name, _to_go(pods)
        if not _ours(node, action):
            return ActionOutcome(done=False, detail=f"{name} was changed by somebody: no more of its pods are evicted")
        if not left:
            space = self.settings.namespace
            looked = f"cordoned, no pods of namespace {space} left" if space else "cordoned and empty"
            return ActionOutcome(done=True, detail=f"{name} is {looked}")
        orphan = next(
            (one.metadata for one in left if not any(owner.controller for owner in one.metadata.owner_references)), None
        )
        if orphan is not None:  # evicted it would be lost for good
            pod = f"{orphan.namespace}/{orphan.name}"
            return ActionOutcome(
                done=False, detail=f"{name} stays cordoned: nothing would start {pod} again; it is a person's"
            )
        if node.lost and all(pod.metadata.deletion_timestamp is not None for pod in left):
            # Its kubelet cannot say so any more; waiting for it would hold up the recovery of every lost node.
            silent = f"{name} is cordoned and its kubelet silent"
            return ActionOutcome(done=True, detail=f"{silent}: {len(left)} pods are told to end, unconfirmed")
        return None


@dataclass(frozen=True)
class _Change:
    unschedulable: bool
    taints: list[dict[str, Any]]
    labels: dict[str, str | None]


def _changed(api: Api, name: str, wanted: Callable[[Node], _Change | ActionOutcome]) -> ActionOutcome:
    """Read, decide, change, and read again until the node is seen as wanted, or decided otherwise."""
    sent, crossed = False, ""
    for left in range(TRIES, -1, -1):  # the last look is for what the last try has done
        try:
            node = api.node(name)
        except ApiTrouble as trouble:
            return ActionOutcome(done=False, recoverable=not sent, detail=str(trouble))
        change = wanted(node)
        if isinstance(change, ActionOutcome):
            return replace(change, recoverable=change.recoverable and not sent)
        if left == 0:
            break
        try:
            api.change(node, unschedulable=change.unschedulable, taints=change.taints, labels=change.labels)
            sent, crossed = True, ""
        except ApiTrouble as trouble:
            crossed, sent = str(trouble), sent or not trouble.decided
            if trouble.decided and trouble.status != CONFLICT:
                break
    return ActionOutcome(done=False, recoverable=not sent, detail=crossed or f"{name} does not keep what was changed")


def _return(api: Api, name: str, action: str, drained_by: str) -> ActionOutcome:
    def uncordon(node: Node) -> _Change | ActionOutcome:
        taint = _taint(node)
        if not node.spec.unschedulable and taint is None:
            return ActionOutcome(done=True, detail=f"{name} is in service")
        if not drained_by or node.metadata.labels.get(DRAINED_BY) != drained_by:
            return ActionOutcome(done=False, detail=f"{name} was cordoned by somebody else, or for something else")
        if not _ours(node, drained_by):
            return ActionOutcome(
                done=False, detail=f"{name} was changed by somebody since it was drained: left as it is"
            )
        return _Change(unschedulable=False, taints=_others(node), labels={DRAINED_BY: None, RETURNED_BY: action})

    return _changed(api, name, uncordon)


def _ours(node: Node, action: str | None = None) -> bool:
    """Cordoned, tainted and marked by us (for that action), and nothing of it changed since."""
    mark, taint = node.metadata.labels.get(DRAINED_BY), _taint(node)
    whole = node.spec.unschedulable and taint is not None and mark is not None and taint.get("value") == mark
    return whole and action in (None, mark)


def _taint(node: Node) -> dict[str, Any] | None:
    return next((taint for taint in node.spec.taints if taint.get("key") == TAINT), None)


def _others(node: Node) -> list[dict[str, Any]]:
    return [taint for taint in node.spec.taints if taint.get("key") != TAINT]


def _to_go(pods: Sequence[Pod]) -> list[Pod]:
    """Not what a DaemonSet or the kubelet's own files would start again at once, nor what has ended."""
    return [
        pod
        for pod in pods
        if pod.status.phase not in ("Succeeded", "Failed")
        and MIRROR not in pod.metadata.annotations
        and not any(owner.controller and owner.kind == "DaemonSet" for owner in pod.metadata.owner_references)
    ]
