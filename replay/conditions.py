"""What faults do to one block of time, as arrays that are only there where a fault has touched them.

A quantity is (seconds, entities). Nobody has touched it: it is not there, and its resting value holds. Faults multiply
into, subtract from or set what `bend` returns; the cluster reads `get`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from replay.layout import Layout
from replay.randomness import Floats

Domain = Literal["gpu", "node", "pdu", "cdu", "pump", "link", "end", "job"]
PUMPS_PER_CDU = 2


@dataclass(frozen=True)
class Quantity:
    name: str
    domain: Domain
    resting: float | bool | int
    meaning: str


QUANTITIES: tuple[Quantity, ...] = (
    Quantity("gpu_on", "gpu", True, "answers on the bus, draws power"),
    Quantity("plate_flow_share", "gpu", 1.0, "flow through the plate over what the loop's head would give"),
    Quantity("plate_resistance_factor", "gpu", 1.0, "conduction resistance over its own when new"),
    Quantity("valve_controlled", "gpu", False, "the branch valve follows the power of its GPU; else it stands open"),
    Quantity("valve_stuck_at", "gpu", -1.0, "share of its opening at which the branch valve sticks; below 0 it moves"),
    Quantity("compute_factor", "gpu", 1.0, "time the rank needs for its share over the usual"),
    Quantity("board_limit_watts", "gpu", 700.0, "what the driver lets the board draw"),
    Quantity("ecc_correctable_per_second", "gpu", 0.0, "corrected errors beyond the background"),
    Quantity("ecc_uncorrectable", "gpu", 0, "uncorrected errors since the scenario began"),
    Quantity("rows_remapped_uncorrectable", "gpu", 0, "rows remapped since the scenario began"),
    Quantity("row_remap_pending", "gpu", False, "a remap waits for a reset"),
    Quantity("row_remap_failure", "gpu", False, "a row could not be remapped"),
    Quantity("clock_limit_share", "gpu", 1.0, "clock over the usual, for a reason other than heat"),
    Quantity("power_braked", "gpu", False, "something outside pulls the power-brake line"),
    Quantity("pcie_replay_per_second", "gpu", 0.0, "replays beyond the background"),
    Quantity("pcie_generation", "gpu", 5, "generation that the link has trained to"),
    Quantity("pcie_width", "gpu", 16, "lanes that the link has trained to"),
    Quantity("nvlink_crc_per_second", "gpu", 0.0, "CRC errors of its NVLinks"),
    Quantity("nvlink_replay_per_second", "gpu", 0.0, "replays of its NVLinks"),
    Quantity("nvlink_recovery_per_second", "gpu", 0.0, "recoveries of its NVLinks"),
    Quantity("rank_stuck", "gpu", False, "its rank never enters the collective; the process lives on"),
    Quantity("saves_fail", "gpu", False, "its shard of the checkpoint cannot be written"),
    Quantity("node_on", "node", True, "the host runs"),
    Quantity("supply_broken", "node", 0, "which of its two supplies gives nothing; 0 for none"),
    Quantity("feed_on", "pdu", True, "the PDU feeds its nodes"),
    Quantity("meter_on", "pdu", True, "the PDU's meter sends"),
    Quantity("pump_target", "pump", 1.0, "speed the pump is driven at, share of nominal"),
    Quantity("extra_load_share", "pdu", 0.0, "load beyond that of the nodes, over what the circuit is rated for"),
    Quantity("volts_share", "pdu", 1.0, "line voltage over its usual one"),
    Quantity("loop_flow_share", "cdu", 1.0, "flow of the loop over what its pumps would give: a filter clogs"),
    Quantity("exchanger_share", "cdu", 1.0, "heat conductance of the heat exchanger over its own when clean"),
    Quantity("ph_shift", "cdu", 0.0, "acidity of the coolant beside its usual one, pH"),
    Quantity("conductivity_factor", "cdu", 1.0, "conductivity of the coolant over its usual one"),
    Quantity("flow_meter_factor", "cdu", 1.0, "what the flow meter shows over the flow"),
    Quantity("return_sensor_kelvin", "cdu", 0.0, "what the return sensor shows beyond the temperature"),
    Quantity("facility_rise_kelvin", "cdu", 0.0, "facility water above its usual temperature"),
    Quantity("level_lost_percent", "cdu", 0.0, "coolant lost from the reservoir"),
    Quantity("leak_severity", "cdu", 0, "0 ok, 1 warning, 2 critical"),
    Quantity("link_on", "link", True, "the cable and both ports work"),
    Quantity("raw_error_decades", "end", 0.0, "powers of ten by which raw errors of the receiver rose"),
    Quantity("rate_share", "link", 1.0, "data rate that the link has trained to over its own"),
    Quantity("fec_burst_share", "end", 0.0, "codewords hit by a burst of errors, of all that the receiver gets"),
    Quantity("wait_ticks_per_second", "end", 0.0, "ticks without credit beyond the usual, while the job communicates"),
    Quantity("discards_per_second", "end", 0.0, "packets dropped for want of room, while the job communicates"),
    Quantity("module_rise_kelvin", "end", 0.0, "transceiver above its usual temperature"),
    Quantity("module_volts_shift", "end", 0.0, "supply of the transceiver beside its usual one, V"),
    Quantity("end_silent", "end", False, "the device of this port sends nothing"),
    Quantity("job_down", "job", False, "the processes of the job do not run"),
    Quantity("communication_factor", "job", 1.0, "time that the collectives of a step take over the usual"),
)
_BY_NAME = {quantity.name: quantity for quantity in QUANTITIES}


@dataclass(frozen=True)
class OpticShift:
    """A change of one lane (None: all) at one end over the block: dB off the light received and sent, bias factor."""

    end: int
    lane: int | None
    receive_db: Floats
    transmit_db: Floats
    bias_factor: Floats


@dataclass(frozen=True)
class DriverEvent:
    """One row of gpu_event: `second` of the scenario, GPU index."""

    second: int
    gpu: int
    kind: Literal["xid", "fallen_off_bus"]
    code: int | None
    message: str
    recovery_action: str | None = None


@dataclass(frozen=True)
class PlannedTime:
    """One row of maintenance, from and to in seconds of the scenario; the job restarts without the node then."""

    announced: int
    starts: int
    ends: int
    node: str
    reason: str
    restarts: int


@dataclass(frozen=True)
class Lie:
    """What an exporter sends instead of the truth, from and to in seconds of the scenario.

    readings: column -> value in every `every`-th row; empty for one that repeats its last true rows.
    restarts_seconds: the source restarts at the beginning and every so many seconds, is silent for gap_seconds each
    time, and counts from zero; 0 for one that lies otherwise. stuck: the column that stands at its last true values.
    clock_seconds: how far the source's clock is ahead.
    """

    table: str
    source: str
    begins: float
    ends: float | None
    readings: Mapping[str, float | str]
    every: int = 1
    restarts_seconds: int = 0
    gap_seconds: int = 0
    stuck: str | None = None
    clock_seconds: float = 0.0


@dataclass(frozen=True)
class FiberChange:
    """What a fibre is other than when it was laid, from and to in seconds of the scenario. Shares are of its length;
    bend_db is at 1310 nm, and a bend without a share is in the panel.
    """

    begins: float
    ends: float
    panel_loss_db: float = 0.0
    panel_reflectance_db: float = 0.0
    bend_share: float | None = None
    bend_db: float = 0.0
    cut_share: float | None = None


@dataclass(eq=False)
class Conditions:
    """seconds: the block's seconds since the scenario began, (t,). fiber_changes: by link."""

    seconds: Floats
    layout: Layout
    optic_shifts: list[OpticShift] = field(default_factory=list)
    driver_events: list[DriverEvent] = field(default_factory=list)
    planned: list[PlannedTime] = field(default_factory=list)
    lies: list[Lie] = field(default_factory=list)
    fiber_changes: dict[int, FiberChange] = field(default_factory=dict)
    silent: dict[str, npt.NDArray[np.bool_]] = field(default_factory=dict)
    _bent: dict[str, npt.NDArray[Any]] = field(default_factory=dict)

    def bend(self, name: str) -> npt.NDArray[Any]:
        """The quantity as a writable array (t, entities), (t, CDUs, pumps), or (t,) for the job."""
        if name not in self._bent:
            quantity = _BY_NAME[name]
            self._bent[name] = np.full((len(self.seconds), *self._shape(quantity.domain)), quantity.resting)
        return self._bent[name]

    def get(self, name: str) -> npt.NDArray[Any] | None:
        """The quantity when a fault has touched it."""
        return self._bent.get(name)

    def silence(self, table: str) -> npt.NDArray[np.bool_]:
        """Writable (t, nodes): where a node's exporter of the table says nothing."""
        if table not in self.silent:
            self.silent[table] = np.zeros((len(self.seconds), len(self.layout.nodes)), dtype=np.bool_)
        return self.silent[table]

    def _shape(self, domain: Domain) -> tuple[int, ...]:
        layout = self.layout
        counts: dict[Domain, tuple[int, ...]] = {
            "gpu": (layout.gpus,),
            "node": (len(layout.nodes),),
            "pdu": (len(layout.pdus),),
            "cdu": (len(layout.cdus),),
            "pump": (len(layout.cdus), PUMPS_PER_CDU),
            "link": (len(layout.fabric.cables),),
            "end": (len(layout.fabric.end_device),),
            "job": (),
        }
        return counts[domain]
