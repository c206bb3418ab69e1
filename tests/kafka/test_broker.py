import pytest
pytestmark = pytest.mark.kafka

def test_x(broker):
    assert broker.create_topic()
