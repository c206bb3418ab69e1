"""TLS and SASL through hotspare.toml: in with the right settings, one clear line without them."""

import logging
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pipelines.settings import KafkaSettings, load_settings
from pipelines.sources.contract import SourceError
from pipelines.sources.kafka_client import consumer, producer
from schemas.formats.wire_arrow import encode_arrow
from tests.kafka.broker import CERTIFICATE, PLAIN, SCRAM, USER, Broker
from tests.kafka.streaming import kafka_source, place, produce, run
from tests.pipelines.telemetry_rows import DETECTORS, gpu_row, gpu_rows, topology

pytestmark = pytest.mark.kafka
WAYS = [("SSL", PLAIN), *((protocol, name) for protocol in ("SASL_PLAINTEXT", "SASL_SSL") for name in (PLAIN, *SCRAM))]


@pytest.fixture
def password_file(own_broker: Broker, tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text(f"{own_broker.password}\n")
    return path


def settings_of(broker: Broker, protocol: str, mechanism: str = SCRAM[1], **more: object) -> KafkaSettings:
    values: dict[str, object] = {
        "bootstrap_servers": broker.listeners[protocol], "security_protocol": protocol, "timeout_seconds": 2.0,
    }  # fmt: skip
    if protocol.endswith("SSL"):
        values["ca_file"] = broker._home / CERTIFICATE
    if protocol.startswith("SASL"):
        values |= {"sasl_mechanism": mechanism, "username": USER}
    return KafkaSettings(**(values | more))  # type: ignore[arg-type]


def refusal(settings: KafkaSettings) -> str:
    """The one line with which a client is refused, in time and with nothing left behind."""
    began, threads = time.monotonic(), threading.active_count()
    with pytest.raises(SourceError) as told, consumer(settings):
        pass
    assert time.monotonic() - began < settings.timeout_seconds + 3
    assert threading.active_count() <= threads
    line = str(told.value)
    assert "\n" not in line
    return line


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_rows_come_in_over_every_listener_as_the_settings_file_says(
    own_broker: Broker, tmp_path: Path, password_file: Path, protocol: str, mechanism: str
) -> None:
    secured = settings_of(own_broker, protocol, mechanism, password_file=password_file)
    there = place(own_broker, tmp_path)
    chosen = load_settings(there.write_settings(**secured.model_dump(exclude_defaults=True, mode="json"))).kafka
    produce(there.kafka, "gpu", [])
    with producer(chosen) as client:
        client.send(f"{chosen.topic_prefix}gpu", encode_arrow(gpu_rows(gpu_row(1)))).get(10)
    tally = run(kafka_source(chosen, topology()), tmp_path, DETECTORS)
    assert tally.rows == {"gpu": 1}


def test_the_password_can_come_from_the_environment(own_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTSPARE_KAFKA_PASSWORD", own_broker.password)
    with consumer(settings_of(own_broker, "SASL_SSL")) as client:
        assert isinstance(client.topics(), set)


@pytest.mark.parametrize("mechanism", [PLAIN, *SCRAM])
def test_a_wrong_password_is_said_to_be_refused_and_is_not_printed(
    own_broker: Broker, monkeypatch: pytest.MonkeyPatch, mechanism: str
) -> None:
    monkeypatch.setenv("HOTSPARE_KAFKA_PASSWORD", "open-sesame-123")
    line = refusal(settings_of(own_broker, "SASL_SSL", mechanism))
    assert f"authentication refused for user {USER} by {mechanism}" in line
    assert own_broker.listeners["SASL_SSL"] in line
    assert "open-sesame-123" not in line


def test_the_reason_is_known_where_the_client_library_is_silenced(
    own_broker: Broker, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOTSPARE_KAFKA_PASSWORD", "open-sesame-123")
    logger = logging.getLogger("kafka")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        assert "authentication refused" in refusal(settings_of(own_broker, "SASL_PLAINTEXT"))
        assert not logging.getLogger("kafka.net.manager").isEnabledFor(logging.WARNING)
    finally:
        logger.setLevel(level)
    assert capfd.readouterr().err == ""


def test_a_certificate_of_an_unknown_authority_is_said_not_to_be_trusted(own_broker: Broker) -> None:
    line = refusal(settings_of(own_broker, "SSL", ca_file=None))
    assert "its certificate is not trusted (self-signed certificate); set kafka.ca_file" in line


def test_plain_text_to_a_tls_port_is_refused_in_time(own_broker: Broker) -> None:
    line = refusal(KafkaSettings(bootstrap_servers=own_broker.listeners["SSL"], timeout_seconds=2.0))
    assert f"{own_broker.listeners['SSL']} over PLAINTEXT: no answer" in line


def test_what_the_settings_lack_is_said_before_anybody_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOTSPARE_KAFKA_PASSWORD", raising=False)
    sasl = {"security_protocol": "SASL_PLAINTEXT", "username": "me"}
    cases = {
        "set kafka.password_file or HOTSPARE_KAFKA_PASSWORD": sasl,
        f"kafka.password_file: {tmp_path}/none: No such file or directory": {
            **sasl,
            "password_file": tmp_path / "none",
        },
        f"kafka.ca_file: {tmp_path}/ca.pem: No such file or directory": {
            "security_protocol": "SSL",
            "ca_file": tmp_path / "ca.pem",
        },
        "kafka.bootstrap_servers: 'localhost:port' is not HOST:PORT": {"bootstrap_servers": "localhost:port"},
    }
    for said, given in cases.items():
        with pytest.raises(SourceError) as told, consumer(KafkaSettings(**given)):  # type: ignore[arg-type]
            pass
        assert said in str(told.value)


def test_a_ca_file_that_is_none_is_named(own_broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("not a certificate")
    line = refusal(settings_of(own_broker, "SSL", ca_file=tmp_path / "ca.pem"))
    assert line.startswith(f"kafka.ca_file: {tmp_path}/ca.pem: no certificate that can be used")


def test_the_command_line_ends_with_two_and_one_line(own_broker: Broker, tmp_path: Path) -> None:
    there = place(own_broker, tmp_path)
    password = tmp_path / "password"
    password.write_text("open-sesame-123")
    secured = settings_of(own_broker, "SASL_SSL", password_file=password)
    settings = there.write_settings(**secured.model_dump(exclude_defaults=True, mode="json"))
    main = "from pipelines.cli.main import main; main()"
    command = [sys.executable, "-c", main, "ingest", "--from", "kafka", "--settings", str(settings)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "authentication refused" in done.stderr
    assert "open-sesame-123" not in done.stderr
