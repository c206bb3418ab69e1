from collections.abc import Iterator

import pytest

from tests.kafka.broker import Broker, MissingBroker, start_broker

@pytest.fixture(scope="session")
def broker(tmp_path_factory):
    with start_broker(tmp_path_factory.mktemp("kafka"), tls=True, sasl=True) as b:
        yield b
