"""How we speak to a broker: one place for addresses, TLS, SASL and time-outs, and for saying that it is away."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

from pipelines.settings import KafkaSettings
from pipelines.sources.contract import SourceError


def client_options(settings: KafkaSettings) -> dict[str, Any]:
    """Keyword arguments that every kafka-python client takes."""
    milliseconds = int(settings.timeout_seconds * 1000)
    options: dict[str, Any] = {
        "bootstrap_servers": settings.bootstrap_servers,
        "security_protocol": settings.security_protocol,
        "request_timeout_ms": milliseconds,
        "bootstrap_timeout_ms": milliseconds,
        "reconnect_backoff_max_ms": 1000,
    }
    if settings.security_protocol.endswith("SSL"):
        options |= {
            "ssl_cafile": _path(settings.ca_file),
            "ssl_certfile": _path(settings.certificate_file),
            "ssl_keyfile": _path(settings.key_file),
            "ssl_check_hostname": settings.check_hostname,
        }
    if settings.security_protocol.startswith("SASL"):
        password = settings.password()
        if settings.username is None or password is None:
            raise SourceError(
                "kafka: SASL wants kafka.username and a password: set kafka.password_file or HOTSPARE_KAFKA_PASSWORD"
            )
        options |= {
            "sasl_mechanism": settings.sasl_mechanism,
            "sasl_plain_username": settings.username,
            "sasl_plain_password": password,
        }
    return options


@contextmanager
def consumer(settings: KafkaSettings, **options: Any) -> Iterator[KafkaConsumer]:
    """A consumer that commits nothing: offsets live in the telemetry store."""
    with telling(settings):
        client = KafkaConsumer(
            enable_auto_commit=False, auto_offset_reset="none", allow_auto_create_topics=False,
            max_partition_fetch_bytes=8 * 1024 * 1024,
            **(client_options(settings) | options),
        )  # fmt: skip
        try:
            yield client
        finally:
            client.close()


@contextmanager
def producer(settings: KafkaSettings) -> Iterator[KafkaProducer]:
    """A producer that waits for every replica and keeps order within a partition."""
    compression = None if settings.compression == "none" else settings.compression
    with telling(settings):
        client = KafkaProducer(
            acks="all", compression_type=compression, linger_ms=20, batch_size=256 * 1024,
            max_request_size=16 * 1024 * 1024, max_block_ms=int(settings.timeout_seconds * 1000),
            **client_options(settings),
        )  # fmt: skip
        try:
            yield client
            client.flush()
        finally:
            client.close()


@contextmanager
def admin(settings: KafkaSettings) -> Iterator[KafkaAdminClient]:
    with telling(settings):
        client = KafkaAdminClient(**client_options(settings))
        try:
            yield client
        finally:
            client.close()


@contextmanager
def telling(settings: KafkaSettings) -> Iterator[None]:
    """Any refusal of the broker becomes one line that names it."""
    try:
        yield
    except KafkaError as error:
        raise SourceError(
            f"kafka: no answer from {settings.bootstrap_servers} over {settings.security_protocol} "
            f"({_first_line(error)}); is the broker up, and are kafka.* in hotspare.toml right?"
        ) from None
    except (ssl.SSLError, FileNotFoundError) as error:
        raise SourceError(f"kafka: TLS to {settings.bootstrap_servers}: {_first_line(error)}") from None


def _path(path: object) -> str | None:
    return None if path is None else str(path)


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:160]
