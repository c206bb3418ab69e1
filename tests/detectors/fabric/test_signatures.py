"""Five ways to lose a link, each told by the detectors that know its signature, and by no other."""

import pytest

from detectors.fabric.contaminated_connector import ContaminatedConnector
from detectors.fabric.error_origin import ErrorOrigin
from detectors.fabric.fiber_bend import FiberBend
from detectors.fabric.laser_aging import LaserAging
from detectors.fabric.optic_power import ReceivePowerTrend
from tests.detectors.streams import stream_of

TELLERS = (ReceivePowerTrend(), LaserAging(), ContaminatedConnector(), FiberBend(), ErrorOrigin())


@pytest.mark.parametrize(
    ("scenario", "link", "told"),
    [
        ("optic_decay", "c000070", {("optic_degrading", "fading"), ("optic_degrading", "laser_fails")}),
        ("dirty_connector", "c000081", {("connector_contaminated", "step")}),
        ("fiber_bend", "c000100", {("fiber_loss", "bend")}),
        ("link_errors", "c000075", {("link_degraded", "host_serdes")}),
        ("module_overheated", "c000066", {("link_degraded", "thermal")}),
    ],
)
def test_each_fault_has_its_own_signature(scenario, link, told):
    stream = stream_of(scenario)
    said = [row for teller in TELLERS for row in stream.run(teller).findings.iter_rows(named=True) if row["active"]]
    assert {(row["cause"], row["code"]) for row in said} == told
    assert {row["entity"] for row in said} == {link}
