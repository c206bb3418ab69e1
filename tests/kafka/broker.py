"""A real Kafka 4 broker for the tests: one KRaft node on loopback, with its data in a folder of the caller's."""

import os
import random
import secrets
import shutil
import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient

POM = Path(__file__).with_name("pom.xml")
CLASSPATH = POM.parent / "target" / "classpath.txt"
RESOLVE = ("mvn", "-q", "-B", "-f", str(POM), "dependency:build-classpath")

HOST = "127.0.0.1"
USER = "hotspare"
CERTIFICATE = "certificate.pem"
PLAIN = "PLAIN"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
START_SECONDS = 60.0
STOP_SECONDS = 20.0

# Below Linux's range for outgoing connections: no client can be given the port while the broker is down, and a client
# that retries a port of that range on loopback can end up connected to itself.
_PORTS = range(20_000, 32_000)

# Starting is what counts here, not the peak: the quick compiler, and a collector without threads of its own.
_JVM = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Djava.awt.headless=true")
_LOG = ("-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS")

_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    # A topic that nobody made is a mistake in a test.
    "auto.create.topics.enable": "false",
    # Of one node there is one copy; few partitions and no wait for more members make the first group quick.
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # A broker that was killed may come back only once its last session has expired (9 s by default).
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}


class MissingBroker(RuntimeError):
    """No broker can be started here; the message is the reason."""


class Broker:
    """A broker that listens on loopback, or one elsewhere that was there before (see `at`).

    `listeners` maps each security protocol that it speaks to its address.
    """

    def __init__(
        self,
        listeners: Mapping[str, str],
        *,
        command: tuple[str, ...] = (),
        folder: Path | None = None,
        password: str = "",
    ) -> None:
        self.listeners = dict(listeners)
        self.password = password
        self._command = command
        self._folder = folder
        self._topics: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def at(cls, bootstrap_servers: str) -> "Broker":
        """The broker that somebody else runs, without TLS or a password."""
        return cls({"PLAINTEXT": bootstrap_servers})

    @property
    def bootstrap_servers(self) -> str:
        return self.listeners["PLAINTEXT"]

    @property
    def is_ours(self) -> bool:
        """Whether this run started it, and so may stop it."""
        return bool(self._command)

    @property
    def log(self) -> str:
        """What the broker said since its folder was made."""
        return (self._home / "broker.log").read_text(errors="replace")

    @property
    def _home(self) -> Path:
        if self._folder is None:
            raise RuntimeError(f"the broker at {self.bootstrap_servers} is not ours to start, stop or read")
        return self._folder

    def client_settings(self, protocol: str = "PLAINTEXT", mechanism: str = PLAIN) -> dict[str, Any]:
        """The keyword arguments with which a kafka-python client reaches this broker by one of its listeners."""
        settings: dict[str, Any] = {"bootstrap_servers": self.listeners[protocol], "security_protocol": protocol}
        if protocol.endswith("SSL"):
            settings["ssl_cafile"] = str(self._home / CERTIFICATE)
        if protocol.startswith("SASL"):
            settings |= {"sasl_mechanism": mechanism}
            settings |= {"sasl_plain_username": USER, "sasl_plain_password": self.password}
        return settings

    def create_topic(self, prefix: str = "test", *, partitions: int = 1) -> str:
        """Make a topic of a name that no other test has, and return the name once it has its leaders."""
        name = f"{prefix}.{uuid.uuid4().hex[:12]}"
        with self.admin() as admin:
            admin.create_topics({name: {"num_partitions": partitions}}, wait_for_metadata=True)
        self._topics.append(name)
        return name

    def delete_topics(self) -> None:
        """Leave a broker that is not ours without the topics that we made."""
        if self._topics:
            with self.admin() as admin:
                admin.delete_topics(self._topics)
        self._topics = []

    def admin(self, *, timeout_seconds: float = 30.0) -> KafkaAdminClient:
        """A client for what is not reading or writing; KafkaTimeoutError where nobody answers in time."""
        milliseconds = int(timeout_seconds * 1000)
        return KafkaAdminClient(bootstrap_servers=self.bootstrap_servers, bootstrap_timeout_ms=milliseconds)

    def start(self) -> None:
        """Start the process and return once it answers clients."""
        if self._process is not None:
            raise RuntimeError("the broker already runs")
        with (self._home / "broker.log").open("ab") as log:
            process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        self._process = process
        try:
            self._wait_until_ready(process)
        except BaseException:
            self.stop(kill=True)
            raise

    def stop(self, *, kill: bool = False) -> None:
        """Stop the process: cleanly, or with `kill` as a power cut would. Stopping it twice is harmless."""
        process, self._process = self._process, None
        if process is None:
            return
        (process.kill if kill else process.terminate)()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def restart(self, *, kill: bool = False) -> None:
        """Stop it and start it again, with the same data on the same ports."""
        self.stop(kill=kill)
        self.start()

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        """Every port must accept before a client asks: each refusal makes a client wait longer to ask again."""
        deadline = time.monotonic() + START_SECONDS
        for address in self.listeners.values():
            while not _accepts(address):
                if process.poll() is not None:
                    raise RuntimeError(f"the broker stopped with {process.returncode}:\n{self.log[-4000:]}")
                if time.monotonic() > deadline:
                    raise RuntimeError(f"the broker did not listen in {START_SECONDS:g} s:\n{self.log[-4000:]}")
                time.sleep(0.05)
        with self.admin(timeout_seconds=START_SECONDS) as admin:
            admin.list_topics()


@contextmanager
def start_broker(folder: Path, *, tls: bool = False, sasl: bool = False) -> Iterator[Broker]:
    """Start a broker that keeps its data, settings and log in `folder`, and stop it at the end.

    It always listens without TLS or a password; `tls` adds SSL, `sasl` adds SASL_PLAINTEXT, and both add SASL_SSL.
    Raises MissingBroker where no broker can be started.
    """
    java = _program("java")
    classpath = _classpath()
    folder.mkdir(parents=True, exist_ok=True)
    protocols = ["PLAINTEXT"] + ["SSL"] * tls + ["SASL_PLAINTEXT"] * sasl + ["SASL_SSL"] * (tls and sasl)
    controller, *addresses = (f"{HOST}:{port}" for port in _free_ports(1 + len(protocols)))
    listeners = dict(zip(protocols, addresses, strict=True))
    password = secrets.token_urlsafe(12)
    settings = _SETTINGS | _listener_settings(listeners, controller) | {"log.dirs": str(folder / "data")}
    if tls:
        settings |= _tls_settings(folder)
    if sasl:
        settings |= _sasl_settings(listeners, password)
    properties = folder / "server.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    run = (java, *_JVM, *_LOG, "-cp", classpath)
    users = [f"--add-scram={mechanism}=[name={USER},password={password}]" for mechanism in SCRAM if sasl]
    cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    _run((*run, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", f"--config={properties}", *users))
    command = (*run, "kafka.Kafka", str(properties))
    broker = Broker(listeners, command=command, folder=folder, password=password if sasl else "")
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def _classpath() -> str:
    """The class path as Maven left it; where there is none, or an outdated one, from what Maven has fetched before."""
    if CLASSPATH.exists() and CLASSPATH.stat().st_mtime >= POM.stat().st_mtime:
        found = CLASSPATH.read_text().strip()
        if all(Path(jar).exists() for jar in found.split(os.pathsep)):
            return found
    try:
        _run((_program("mvn"), "--offline", *RESOLVE[1:]))
    except RuntimeError as error:
        raise MissingBroker(f"Maven has not fetched the broker; run: {' '.join(RESOLVE)}") from error
    return CLASSPATH.read_text().strip()


def _listener_settings(listeners: Mapping[str, str], controller: str) -> dict[str, str]:
    protocols = {protocol: protocol for protocol in listeners} | {"CONTROLLER": "PLAINTEXT"}
    own = [f"{protocol}://{address}" for protocol, address in listeners.items()]
    return {
        "listeners": ",".join([*own, f"CONTROLLER://{controller}"]),
        "advertised.listeners": ",".join(own),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "controller.quorum.voters": f"1@{controller}",
    }


def _tls_settings(folder: Path) -> dict[str, str]:
    """A certificate of this run alone, which the clients are given to trust."""
    key, certificate, both = folder / "key.pem", folder / CERTIFICATE, folder / "keystore.pem"
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    names = ("-subj", "/CN=localhost", "-addext", f"subjectAltName=DNS:localhost,IP:{HOST}")
    files = ("-keyout", str(key), "-out", str(certificate))
    _run((_program("openssl"), "req", "-x509", *curve, "-days", "2", *names, *files))
    both.write_text(key.read_text() + certificate.read_text())
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(both)}


def _sasl_settings(listeners: Mapping[str, str], password: str) -> dict[str, str]:
    """Each mechanism has its own login module on each listener; only PLAIN keeps its users there."""
    package = "org.apache.kafka.common.security"
    scram = dict.fromkeys(SCRAM, f"{package}.scram.ScramLoginModule required;")
    modules = {PLAIN: f'{package}.plain.PlainLoginModule required user_{USER}="{password}";'} | scram
    return {"sasl.enabled.mechanisms": ",".join(modules)} | {
        f"listener.name.{protocol.lower()}.{mechanism.lower()}.sasl.jaas.config": module
        for protocol in listeners
        if protocol.startswith("SASL")
        for mechanism, module in modules.items()
    }


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now. The sample has each once, so they differ."""
    ports: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as candidate, suppress(OSError):
            candidate.bind((HOST, port))
            ports.append(port)
        if len(ports) == count:
            return ports
    raise MissingBroker(f"no {count} free ports in {_PORTS}")


def _accepts(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=1):
            return True
    except OSError:
        return False


def _program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise MissingBroker(f"{name} is not installed")
    return path


def _run(command: tuple[str, ...]) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} stopped with {done.returncode}: {(done.stderr + done.stdout)[-2000:]}")
