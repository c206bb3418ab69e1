"""Every detector, read top to bottom. A new one is one file and one line here; the conformance suite picks it up."""

from detectors.contract import Detector
from detectors.coolant.air import CoolantAir
from detectors.coolant.chemistry import CoolantChemistry
from detectors.coolant.flow_restricted import FlowRestricted
from detectors.coolant.heat_balance import HeatBalance
from detectors.coolant.heat_exchanger import HeatExchangerFouled
from detectors.coolant.leak import CoolantLeak
from detectors.coolant.pump_failure import PumpFailure
from detectors.coolant.valve_stuck import ValveStuck
from detectors.fabric.bit_errors import BitErrors
from detectors.fabric.congestion import Congestion
from detectors.fabric.contaminated_connector import ContaminatedConnector
from detectors.fabric.error_origin import ErrorOrigin
from detectors.fabric.fec_tail import FecTail
from detectors.fabric.fiber_bend import FiberBend
from detectors.fabric.laser_aging import LaserAging
from detectors.fabric.link_down import LinkDown
from detectors.fabric.link_flap import LinkFlap
from detectors.fabric.optic_power import ReceivePowerTrend
from detectors.fabric.slow_hop import SlowHop
from detectors.fabric.switch_lost import SwitchLost
from detectors.fabric.worse_after_flap import WorseAfterFlap
from detectors.fiber.event_loss import EventLoss
from detectors.fiber.macrobend import Macrobend
from detectors.gpu.absent import GpuAbsent
from detectors.gpu.clock_loss import ClockLoss
from detectors.gpu.correctable_errors import CorrectableErrors
from detectors.gpu.lemon import LemonNode
from detectors.gpu.memory_errors import MemoryErrors
from detectors.gpu.nvlink_errors import NvlinkErrors
from detectors.gpu.pcie_link import PcieLink
from detectors.gpu.pcie_replays import PcieReplays
from detectors.gpu.power_brake import PowerBrake
from detectors.gpu.row_remap import RowRemapFailure
from detectors.gpu.thermal_resistance import ThermalResistance
from detectors.gpu.thermal_throttle import ThermalThrottle
from detectors.gpu.xid import XidFault
from detectors.gpu.xid_repeats import XidRepeats
from detectors.hardware.health import HardwareHealth
from detectors.job.checkpoint_stale import CheckpointStale
from detectors.job.hang import JobHang
from detectors.job.heartbeat import MissedHeartbeats
from detectors.job.straggler import Straggler
from detectors.power.breaker_load import BreakerLoad
from detectors.power.domain_loss import PowerDomainLoss
from detectors.power.sag import PowerSag
from detectors.telemetry.clock_skew import ClockSkew
from detectors.telemetry.frozen import FrozenTelemetry
from detectors.telemetry.implausible import ImplausibleTelemetry
from detectors.telemetry.saturated import SaturatedCounters
from detectors.telemetry.source_restart import SourceRestart
from detectors.telemetry.stale import StaleTelemetry
from detectors.telemetry.stuck_counter import StuckCounter

CATALOG: tuple[Detector, ...] = (
    PowerDomainLoss(),
    PowerSag(),
    BreakerLoad(),
    PumpFailure(),
    CoolantLeak(),
    FlowRestricted(),
    CoolantChemistry(),
    HeatExchangerFouled(),
    ValveStuck(),
    CoolantAir(),
    HeatBalance(),
    SwitchLost(),
    LinkDown(),
    LinkFlap(),
    ReceivePowerTrend(),
    ContaminatedConnector(),
    BitErrors(),
    FecTail(),
    ErrorOrigin(),
    WorseAfterFlap(),
    FiberBend(),
    LaserAging(),
    SlowHop(),
    Congestion(),
    EventLoss(),
    Macrobend(),
    XidFault(),
    XidRepeats(),
    GpuAbsent(),
    LemonNode(),
    MemoryErrors(),
    CorrectableErrors(),
    RowRemapFailure(),
    NvlinkErrors(),
    PcieLink(),
    PcieReplays(),
    ThermalThrottle(),
    ThermalResistance(),
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
    StuckCounter(),
    SourceRestart(),
    ClockSkew(),
)

# These judge rows and no deadline: without a row they say nothing and keep their state, however late it is. So nobody
# need ask them then, which is most of what a step of few rows costs.
ROWS_ALONE: frozenset[str] = frozenset({
    "coolant.air", "coolant.chemistry", "coolant.flow_restricted", "coolant.heat_exchanger", "fabric.bit_errors",
    "fabric.congestion", "fabric.contaminated_connector", "fabric.error_origin", "fabric.fec_tail",
    "fabric.fiber_bend", "fabric.laser_aging", "fabric.link_flap", "fabric.optic_power", "fabric.slow_hop",
    "fabric.worse_after_flap",
    "fiber.event_loss", "fiber.macrobend", "gpu.clock_loss", "gpu.pcie_link", "gpu.power_brake", "gpu.row_remap",
    "gpu.thermal_throttle", "hardware.health", "power.breaker_load", "power.sag", "telemetry.clock_skew",
    "telemetry.frozen", "telemetry.saturated", "telemetry.stuck_counter",
})  # fmt: skip
