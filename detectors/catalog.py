"""Every detector, read top to bottom. A new one is one file and one line here; the conformance suite picks it up."""

from detectors.contract import Detector
from detectors.coolant.chemistry import CoolantChemistry
from detectors.coolant.flow_restricted import FlowRestricted
from detectors.coolant.heat_exchanger import HeatExchangerFouled
from detectors.coolant.leak import CoolantLeak
from detectors.coolant.pump_failure import PumpFailure
from detectors.fabric.contaminated_connector import ContaminatedConnector
from detectors.fabric.link_down import LinkDown
from detectors.fabric.link_flap import LinkFlap
from detectors.fabric.optic_power import ReceivePowerTrend
from detectors.fiber.event_loss import EventLoss
from detectors.gpu.absent import GpuAbsent
from detectors.gpu.clock_loss import ClockLoss
from detectors.gpu.memory_errors import MemoryErrors
from detectors.gpu.nvlink_errors import NvlinkErrors
from detectors.gpu.pcie_link import PcieLink
from detectors.gpu.pcie_replays import PcieReplays
from detectors.gpu.power_brake import PowerBrake
from detectors.gpu.row_remap import RowRemapFailure
from detectors.gpu.thermal_throttle import ThermalThrottle
from detectors.gpu.xid import XidFault
from detectors.gpu.xid_repeats import XidRepeats
from detectors.hardware.health import HardwareHealth
from detectors.job.checkpoint_stale import CheckpointStale
from detectors.job.hang import JobHang
from detectors.job.heartbeat import MissedHeartbeats
from detectors.job.straggler import Straggler
from detectors.power.domain_loss import PowerDomainLoss
from detectors.power.sag import PowerSag
from detectors.telemetry.clock_skew import ClockSkew
from detectors.telemetry.frozen import FrozenTelemetry
from detectors.telemetry.implausible import ImplausibleTelemetry
from detectors.telemetry.saturated import SaturatedCounters
from detectors.telemetry.stale import StaleTelemetry

CATALOG: tuple[Detector, ...] = (
    PowerDomainLoss(),
    PowerSag(),
    PumpFailure(),
    CoolantLeak(),
    FlowRestricted(),
    CoolantChemistry(),
    HeatExchangerFouled(),
    LinkDown(),
    LinkFlap(),
    ReceivePowerTrend(),
    ContaminatedConnector(),
    EventLoss(),
    XidFault(),
    XidRepeats(),
    GpuAbsent(),
    MemoryErrors(),
    RowRemapFailure(),
    NvlinkErrors(),
    PcieLink(),
    PcieReplays(),
    ThermalThrottle(),
    PowerBrake(),
    ClockLoss(),
    HardwareHealth(),
    MissedHeartbeats(),
    Straggler(),
    JobHang(),
    CheckpointStale(),
    StaleTelemetry(),
    FrozenTelemetry(),
    ImplausibleTelemetry(),
    SaturatedCounters(),
    ClockSkew(),
)
