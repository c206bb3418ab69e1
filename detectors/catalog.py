"""Every detector, read top to bottom. A new one is one file and one line here; the conformance suite picks it up."""

from detectors.contract import Detector
from detectors.coolant.leak import CoolantLeak
from detectors.coolant.pump_failure import PumpFailure
from detectors.fabric.contaminated_connector import ContaminatedConnector
from detectors.fabric.link_down import LinkDown
from detectors.fabric.link_flap import LinkFlap
from detectors.fabric.optic_power import ReceivePowerTrend
from detectors.fiber.event_loss import EventLoss

CATALOG: tuple[Detector, ...] = (
    PumpFailure(),
    CoolantLeak(),
    LinkDown(),
    LinkFlap(),
    ReceivePowerTrend(),
    ContaminatedConnector(),
    EventLoss(),
)
