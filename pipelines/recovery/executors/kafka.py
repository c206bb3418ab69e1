"""An action as one message of a topic, keyed by its target so that one target's actions keep their order."""

from dataclasses import asdict, dataclass

import msgspec
from kafka import KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError

from pipelines.recovery.executors.contract import ActionOutcome
from pipelines.settings import KafkaSettings
from pipelines.sources.contract import SourceError
from pipelines.sources.kafka_client import producer
from schemas.action import ActionRequest


@dataclass(frozen=True)
class KafkaExecutor:
    """Done is: the broker has the message on all its replicas. Consumers must do a key `id` once."""

    settings: KafkaSettings
    topic: str

    def apply(self, request: ActionRequest) -> ActionOutcome:
        value = msgspec.json.encode(asdict(request), order="sorted")
        outcome: ActionOutcome | None = None
        try:
            with producer(self.settings) as client:
                outcome = self._sent(client, request, value)
        except SourceError as error:
            if outcome is None:  # nobody was reached
                return ActionOutcome(done=False, recoverable=True, detail=str(error))
        assert outcome is not None
        return outcome

    def _sent(self, client: KafkaProducer, request: ActionRequest, value: bytes) -> ActionOutcome:
        try:
            sent = client.send(self.topic, value=value, key=request.target.encode())
        except KafkaError as error:  # no such topic, or no room: it never left
            return ActionOutcome(done=False, recoverable=True, detail=f"topic {self.topic}: {error}")
        try:
            told = sent.get(self.settings.timeout_seconds)
        except KafkaTimeoutError:
            return ActionOutcome(done=False, detail=f"topic {self.topic}: no answer; it may have been taken")
        except KafkaError as error:
            return ActionOutcome(done=False, recoverable=True, detail=f"topic {self.topic}: {error}")
        return ActionOutcome(done=True, detail=f"topic {self.topic}, partition {told.partition}, offset {told.offset}")

    def outcome_of(self, request_id: str) -> ActionOutcome | None:  # noqa: ARG002 - the protocol's
        return None
