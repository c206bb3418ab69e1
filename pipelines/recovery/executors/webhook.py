"""An action as one signed POST to whoever carries it out."""

from dataclasses import asdict, dataclass
from typing import Literal

import msgspec

from pipelines.recovery.executors.contract import ActionOutcome
from pipelines.signed_post import SignedPost
from schemas.action import ActionRequest


class _Said(msgspec.Struct):
    outcome: Literal["done", "failed"]
    detail: str = ""


@dataclass(frozen=True)
class WebhookExecutor:
    """The receiver answers 204, or 2xx with {"outcome": "done" | "failed", "detail": ...}; nothing else counts as done.

    It must do an Idempotency-Key once. What became of a request whose answer was lost is not asked: a person looks.
    """

    post: SignedPost

    def apply(self, request: ActionRequest) -> ActionOutcome:
        reply = self.post.send(msgspec.json.encode(asdict(request), order="sorted"), request.id)
        if reply.reached != "taken":
            return ActionOutcome(done=False, recoverable=reply.reached == "not_reached", detail=reply.detail)
        if not reply.body:
            return ActionOutcome(done=True, detail=reply.detail)
        try:
            said = msgspec.json.decode(reply.body, type=_Said)
        except msgspec.DecodeError:
            return ActionOutcome(done=False, detail=f"{reply.detail}, and an answer that cannot be read")
        return ActionOutcome(done=said.outcome == "done", detail=said.detail or reply.detail)

    def outcome_of(self, request_id: str) -> ActionOutcome | None:  # noqa: ARG002 - the protocol's
        return None
