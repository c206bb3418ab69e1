"""The broker that the tests of this folder share."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

import pytest
from kafka.errors import KafkaTimeoutError

from tests.kafka.broker import Broker, MissingBroker, start_broker


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks for groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker takes all tests of this folder, so that a run has one broker."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("kafka"))


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


def do_without(reason: str) -> NoReturn:
    """CI sets HOTSPARE_REQUIRE_KAFKA, so that a missing broker cannot pass for a green run there."""
    if os.environ.get("HOTSPARE_REQUIRE_KAFKA") == "1":
        pytest.fail(f"HOTSPARE_REQUIRE_KAFKA=1, but {reason}")
    pytest.skip(reason)
