"""The broker that the tests of this folder share."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from socket import socket
from typing import Any, NoReturn

import pytest
from kafka.errors import KafkaTimeoutError
from kafka.net.inet import KafkaNetSocket
from kafka.net.transport import KafkaSSLTransport

from tests.kafka.broker import Broker, MissingBroker, start_broker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker for the whole run: the one at KAFKA_BOOTSTRAP_SERVERS, or else our own with every listener."""
    address = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if address:
        elsewhere = Broker.at(address)
        try:
            elsewhere.admin(timeout_seconds=10).close()
        except KafkaTimeoutError:
            pytest.fail(f"nobody answers at KAFKA_BOOTSTRAP_SERVERS={address}")
        yield elsewhere
        elsewhere.delete_topics()
        return
    with ExitStack() as stack:
        try:
            started = stack.enter_context(start_broker(tmp_path_factory.mktemp("kafka"), tls=True, sasl=True))
        except MissingBroker as error:
            do_without(str(error))
        yield started


@pytest.fixture(scope="session")
def own_broker(broker: Broker) -> Broker:
    """The shared broker where it is ours: it can be restarted, and has TLS and users."""
    if not broker.is_ours:
        pytest.skip(f"the broker at {broker.bootstrap_servers} is not ours to restart, and has no TLS or users of ours")
    return broker


@pytest.fixture(scope="session", autouse=True)
def closed_sockets() -> Iterator[None]:
    """Close the socket of a connection that failed; kafka-python 3.0.12 leaves it to the garbage collector.

    The collector's warning is an error here, and in whichever test happens to run by then.
    """
    connect, handshake = KafkaNetSocket.sock_connect, KafkaSSLTransport.handshake

    async def sock_connect(self: KafkaNetSocket, net: Any, sock: socket, *args: Any, **kwargs: Any) -> socket:
        with _closed_on_failure(sock):
            return await connect(self, net, sock, *args, **kwargs)

    async def shake_hands(self: KafkaSSLTransport) -> None:
        with _closed_on_failure(self._sock):
            await handshake(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KafkaNetSocket, "sock_connect", sock_connect)
        patch.setattr(KafkaSSLTransport, "handshake", shake_hands)
        yield


@contextmanager
def _closed_on_failure(sock: socket) -> Iterator[None]:
    try:
        yield
    except BaseException:
        sock.close()
        raise


def do_without(reason: str) -> NoReturn:
    """CI sets HOTSPARE_REQUIRE_KAFKA, so that a missing broker cannot pass for a green run there."""
    if os.environ.get("HOTSPARE_REQUIRE_KAFKA") == "1":
        pytest.fail(f"HOTSPARE_REQUIRE_KAFKA=1, but {reason}")
    pytest.skip(reason)
