"""Redfish: caps a node's power and shuts nodes down, through their management controllers.

A request for a whole loop or power domain is carried out node by node; what was reached and what was not is said.
"""

import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import msgspec

from pipelines.recovery.executors.contract import ActionOutcome
from pipelines.recovery.executors.names import plain
from schemas.action import ActionRequest
from schemas.topology import node_of

KINDS = ("cap_power", "staged_shutdown")


@dataclass(frozen=True, kw_only=True)
class RedfishExecutor:
    """address: of a node's controller, with {node} in it. watts_limit: of a whole node without a cap.
    stage_seconds: between two stages of a shutdown. deadline_seconds: for all of an action. clock: seconds that only
    grow.
    """

    address: str
    username: str
    password: str = field(repr=False)
    watts_limit: float = 10200.0
    timeout_seconds: float = 10.0
    stage_seconds: float = 2.0
    deadline_seconds: float = 45.0
    ca_file: str | None = None
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def apply(self, request: ActionRequest) -> ActionOutcome:
        match request.kind:
            case "cap_power":
                watts = round(self.watts_limit * float(request.parameters.get("share_of_limit", 0.7)))
                return self._over([_nodes(request)], lambda client, node: self._cap(client, node, watts))
            case "staged_shutdown":
                stages = [
                    list(dict.fromkeys(node_of(gpu) for gpu in stage)) for stage in request.parameters.get("stages", ())
                ]
                return self._over(stages, self._shut_down)
        return ActionOutcome(done=False, detail=f"Redfish does not do {request.kind}")

    def outcome_of(self, request_id: str) -> ActionOutcome | None:  # noqa: ARG002 - the protocol's
        return None

    def _over(self, stages: Sequence[Sequence[str]], act: "Callable[[httpx.Client, str], str | None]") -> ActionOutcome:
        """Stage by stage; a stage in which a node could not be shut down or capped is the last, and so is the one in
        which the deadline comes: what is done is said before the ledger takes the action for lost.
        """
        until = self.clock() + self.deadline_seconds
        reached, troubles = 0, list[str]()
        wrong = [node for stage in stages for node in stage if plain(node) is None]
        if wrong or not any(stages):
            return ActionOutcome(done=False, detail=f"{wrong[0]!r} is no host name" if wrong else "no nodes to act on")
        login = httpx.BasicAuth(self.username, self.password)
        try:
            verify = True if self.ca_file is None else ssl.create_default_context(cafile=self.ca_file)
            opened = httpx.Client(auth=login, timeout=self.timeout_seconds, verify=verify)
        except OSError as error:
            return ActionOutcome(done=False, recoverable=True, detail=f"{self.ca_file}: {error.strerror or error}")
        with opened as client:
            for number, stage in enumerate(stages):
                if number:
                    self.sleep(self.stage_seconds)
                for node in stage:
                    late = f"{node}: not reached within {self.deadline_seconds:g} s"
                    trouble = act(client, node) if self.clock() < until else late
                    reached += trouble is None
                    troubles += [] if trouble is None else [trouble]
                if troubles:
                    break
        if not troubles:
            return ActionOutcome(done=True, detail=f"{reached} nodes")
        total = sum(map(len, stages))
        return ActionOutcome(done=False, detail=f"{reached} of {total} nodes; {troubles[0]}")

    def _cap(self, client: httpx.Client, node: str, watts: int) -> str | None:
        body = {"PowerControl": [{"PowerLimit": {"LimitInWatts": watts}}]}
        return self._send(client, "PATCH", f"{self._at(node)}/redfish/v1/Chassis/1/Power", body)

    def _shut_down(self, client: httpx.Client, node: str) -> str | None:
        url = f"{self._at(node)}/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"
        return self._send(client, "POST", url, {"ResetType": "GracefulShutdown"})

    def _at(self, node: str) -> str:
        return self.address.replace("{node}", node).rstrip("/")

    @staticmethod
    def _send(client: httpx.Client, method: str, url: str, body: dict[str, Any]) -> str | None:
        """None when it was taken, else what went wrong."""
        try:
            answer = client.request(method, url, json=body)
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:  # a plain name may be no host's all the same
            return f"{url}: {type(error).__name__}: {error}"
        if not answer.is_success:
            return f"{url}: {answer.status_code}"
        return (
            None if _understood(answer.content) else f"{url}: {answer.status_code}, and an answer that cannot be read"
        )


def _understood(body: bytes) -> bool:
    """Nothing, or a resource or message. What a login page or a proxy says is no answer of a controller's."""
    try:
        return not body or "error" not in msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError:
        return False


def _nodes(request: ActionRequest) -> list[str]:
    if request.parameters.get("target_kind") in ("node", "gpu"):
        return [node_of(request.target)]
    return [str(node) for node in request.parameters.get("nodes", ())]
