"""How we speak to a broker: one place for addresses, TLS, SASL and time-outs, and for saying why it does not answer."""

import logging
import re
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError
from kafka.net.compat import KafkaNetClient

from pipelines.settings import KafkaSettings
from pipelines.sources.contract import SourceError

FETCH_BYTES = 8 * 1024 * 1024  # of one partition at a time; a larger message still comes whole
REQUEST_BYTES = 16 * 1024 * 1024
SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+)(:[0-9]{1,5})?")
# kafka-python only says here why nobody let it in; the exception is the same time-out for everything.
REASONS = logging.getLogger("kafka.net.manager")


def client_options(settings: KafkaSettings) -> dict[str, Any]:
    """Keyword arguments that every kafka-python client takes. Raises SourceError for what the settings lack."""
    milliseconds = int(settings.timeout_seconds * 1000)
    options: dict[str, Any] = {
        "bootstrap_servers": _servers(settings.bootstrap_servers),
        "security_protocol": settings.security_protocol,
        "request_timeout_ms": milliseconds,
        "bootstrap_timeout_ms": milliseconds,
        "reconnect_backoff_max_ms": 1000,
    }
    if settings.security_protocol.endswith("SSL"):
        _look_at_files(settings)
        options |= {
            "ssl_cafile": _path(settings.ca_file),
            "ssl_certfile": _path(settings.certificate_file),
            "ssl_keyfile": _path(settings.key_file),
            "ssl_check_hostname": settings.check_hostname,
        }
    if settings.security_protocol.startswith("SASL"):
        options |= {
            "sasl_mechanism": settings.sasl_mechanism,
            "sasl_plain_username": settings.username,
            "sasl_plain_password": _password(settings),
        }
    return options


@contextmanager
def consumer(settings: KafkaSettings, **options: Any) -> Iterator[KafkaConsumer]:
    """A consumer that commits nothing: offsets live in the telemetry store."""
    own = {
        "enable_auto_commit": False, "auto_offset_reset": "none", "allow_auto_create_topics": False,
        "max_partition_fetch_bytes": FETCH_BYTES,
    }  # fmt: skip
    with telling(settings):
        client = _made(KafkaConsumer, **(own | client_options(settings) | options))
        try:
            yield client
        finally:
            client.close(timeout_ms=0)


@contextmanager
def producer(settings: KafkaSettings) -> Iterator[KafkaProducer]:
    """A producer that waits for every replica and keeps order within a partition."""
    compression = None if settings.compression == "none" else settings.compression
    milliseconds = int(settings.timeout_seconds * 1000)
    own = {
        "acks": "all", "compression_type": compression, "linger_ms": 20, "batch_size": 256 * 1024,
        "max_request_size": REQUEST_BYTES, "max_block_ms": milliseconds,
        # linger and one request must fit in, and a broker that is away must be told of in time
        "delivery_timeout_ms": milliseconds + 20,
    }  # fmt: skip
    with telling(settings):
        client = _made(KafkaProducer, **(own | client_options(settings)))
        try:
            yield client
            client.flush(settings.timeout_seconds)
        finally:
            with suppress(KafkaTimeoutError):  # undelivered: whoever sent has been told by its futures or by flush
                client.close(timeout=0)


@contextmanager
def admin(settings: KafkaSettings) -> Iterator[KafkaAdminClient]:
    with telling(settings):
        client = _made(KafkaAdminClient, **client_options(settings))
        try:
            yield client
        finally:
            client.close()


@contextmanager
def telling(settings: KafkaSettings) -> Iterator[None]:
    """Any refusal of the broker becomes one line that names it, with the reason where one is known."""
    where = f"kafka: {settings.bootstrap_servers} over {settings.security_protocol}"
    with _overhearing() as heard:
        try:
            yield
        except KafkaError as error:
            raise SourceError(f"{where}: {_reason(heard, settings) or _unanswered(error)}") from None
        except ssl.SSLError as error:
            raise SourceError(f"{where}: TLS: {_first_line(error)}") from None


def _made(kind: Callable[..., Any], **options: Any) -> Any:
    """A client; one whose making fails leaves its thread and sockets behind unless its inside is closed."""
    inside: list[KafkaNetClient] = []

    def connect(**given: Any) -> KafkaNetClient:
        inside.append(KafkaNetClient(**given))
        return inside[-1]

    try:
        return kind(kafka_client=connect, **options)
    except BaseException:
        for one in inside:
            one.close()
        raise


class _Overheard(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines = [*self.lines[-19:], record.getMessage()]


@contextmanager
def _overhearing() -> Iterator[_Overheard]:
    """Listen to what the client library logs, also where its loggers are silenced, and leave them as they were."""
    handler, level, passes_on = _Overheard(), REASONS.level, REASONS.propagate
    if not REASONS.isEnabledFor(logging.WARNING):
        REASONS.propagate = False
        REASONS.setLevel(logging.WARNING)
    REASONS.addHandler(handler)
    try:
        yield handler
    finally:
        REASONS.removeHandler(handler)
        REASONS.setLevel(level)
        REASONS.propagate = passes_on


def _reason(heard: _Overheard, settings: KafkaSettings) -> str | None:
    for line in reversed(heard.lines):
        if "CERTIFICATE_VERIFY_FAILED" in line:
            detail = line.partition("certificate verify failed: ")[2].partition(" (_ssl")[0]
            return f"its certificate is not trusted ({detail or 'verification failed'}); set kafka.ca_file"
        # Over TLS the library often misses a broker's refusal, and sees only that the connection is closed.
        closed = settings.security_protocol.startswith("SASL") and "socket disconnected" in line
        if "Sasl" in line or "SASL" in line or "uthentication" in line or closed:
            return (
                f"authentication refused for user {settings.username} by {settings.sasl_mechanism}; see kafka.username,"
                " kafka.sasl_mechanism and the password in kafka.password_file or HOTSPARE_KAFKA_PASSWORD"
            )
    return None


def _unanswered(error: KafkaError) -> str:
    return f"no answer ({_first_line(error)}); is the broker up, and are kafka.* in hotspare.toml right?"


def _servers(text: str) -> list[str]:
    """HOST, HOST:PORT or [ADDRESS]:PORT, several with commas. The library leaves sockets behind where one is not."""
    servers = [server.strip() for server in text.split(",")]
    for server in servers:
        if SERVER.fullmatch(server) is None:
            raise SourceError(f"kafka.bootstrap_servers: {server!r} is not HOST:PORT")
    return servers


def _look_at_files(settings: KafkaSettings) -> None:
    """What is wrong with a file is told at once; the client library would go on trying for its whole time-out."""
    context = ssl.create_default_context()
    if settings.ca_file is not None:
        _loaded("ca_file", settings.ca_file, context.load_verify_locations)
    if settings.certificate_file is not None:
        _loaded(
            "certificate_file", settings.certificate_file, lambda path: context.load_cert_chain(path, settings.key_file)
        )


def _loaded(key: str, path: Path, load: Callable[[Path], None]) -> None:
    try:
        load(path)
    except ssl.SSLError as error:
        raise SourceError(f"kafka.{key}: {path}: no certificate that can be used ({_first_line(error)})") from None
    except OSError as error:
        raise SourceError(f"kafka.{key}: {path}: {error.strerror}") from None


def _password(settings: KafkaSettings) -> str:
    try:
        password = settings.password()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no text"
        raise SourceError(f"kafka.password_file: {settings.password_file}: {reason}") from None
    if settings.username is None or not password:
        raise SourceError(
            "kafka: SASL wants kafka.username and a password: set kafka.password_file or HOTSPARE_KAFKA_PASSWORD"
        )
    return password


def _path(path: object) -> str | None:
    return None if path is None else str(path)


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:160]
