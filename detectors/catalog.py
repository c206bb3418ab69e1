"""Every detector, read top to bottom. A new one is one file and one line here; the conformance suite picks it up."""

from detectors.contract import Detector
from detectors.coolant.leak import CoolantLeak
from detectors.coolant.pump_failure import PumpFailure
from detectors.fabric.contaminated_connector import ContaminatedConnector
from detectors.fabric.link_down import LinkDown
from detectors.fabric.link_flap import LinkFlap
from detectors.fabric.optic_power import ReceivePowerTrend
from detectors.fiber.event_loss import EventLoss
from detectors.gpu.absent import GpuAbsent
from detectors.gpu.power_brake import PowerBrake
from detectors.gpu.row_remap import RowRemapFailure
from detectors.gpu.thermal_throttle import ThermalThrottle
from detectors.gpu.xid import XidFault
from detectors.job.heartbeat import MissedHeartbeats
from detectors.job.straggler import Straggler
from detectors.power.domain_loss import PowerDomainLoss
from detectors.telemetry.stale import StaleTelemetry

CATALOG: tuple[Detector, ...] = (
    PowerDomainLoss(),
    PumpFailure(),
    CoolantLeak(),
    LinkDown(),
    LinkFlap(),
    ReceivePowerTrend(),
    ContaminatedConnector(),
    EventLoss(),
    XidFault(),
    GpuAbsent(),
    RowRemapFailure(),
    ThermalThrottle(),
    PowerBrake(),
    MissedHeartbeats(),
    Straggler(),
    StaleTelemetry(),
)
