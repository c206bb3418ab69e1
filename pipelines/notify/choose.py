"""From settings to receivers. What is not used is not imported."""

from collections.abc import Callable

from pipelines.notify.receivers import Alertmanager, Receiver, Topic, Webhook
from pipelines.recovery.executors.settings import secret
from pipelines.settings import KafkaSettings, Settings, SettingsError
from pipelines.signed_post import SignedPost


def receivers_from(settings: Settings) -> tuple[Receiver, ...]:
    """Those that the settings name. Raises SettingsError."""
    chosen = settings.notify
    found: list[Receiver] = []
    if chosen.alertmanager:
        found.append(Alertmanager(chosen.alertmanager, chosen.timeout_seconds, 10 * chosen.resend_seconds))
    if chosen.webhook:
        try:
            key = secret(chosen.secret_file, "HOTSPARE_NOTIFY_SECRET")
        except OSError as error:
            raise SettingsError(f"{error.filename}: {error.strerror}") from None
        found.append(
            Webhook(
                SignedPost(url=chosen.webhook, secret=key.encode(), timeout_seconds=chosen.timeout_seconds, tries=2)
            )
        )
    if chosen.topic:
        found.append(Topic(_sender(settings.kafka, chosen.topic)))
    return tuple(found)


def _sender(settings: KafkaSettings, topic: str) -> Callable[[bytes, bytes], str | None]:
    from kafka.errors import KafkaError  # noqa: PLC0415 - only where it is used

    from pipelines.sources.contract import SourceError  # noqa: PLC0415 - only where it is used
    from pipelines.sources.kafka_client import producer  # noqa: PLC0415 - only where it is used

    def send(key: bytes, value: bytes) -> str | None:
        try:
            with producer(settings) as client:
                client.send(topic, value=value, key=key).get(settings.timeout_seconds)
        except (SourceError, KafkaError) as error:
            return f"topic {topic}: {error}"
        return None

    return send
