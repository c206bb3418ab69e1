"""The catalogue of faults and disturbances, top to bottom, and how a [[fault]] of a scenario becomes one of them."""

from collections.abc import Sequence
from dataclasses import MISSING, fields
from difflib import get_close_matches
from typing import Any

from replay.disturbances import ExporterRestart, FacilityStep, LostSamples, PlannedDrain, PowerCap
from replay.fault import Fault
from replay.faults_errors import CongestedLink, FecTail, LinkErrors, ModuleUnwell, SlowHop
from replay.faults_exporters import (
    ClockOff,
    CounterStuck,
    ImplausibleReadings,
    SaturatedCounter,
    SourceRestarts,
    TelemetryFrozen,
)
from replay.faults_fabric import DirtyConnector, LinkFlap, OpticDecay
from replay.faults_facility import CoolantLeak, PduCascade, PumpFailure
from replay.faults_fiber import FiberBend, FiberBreak, FiberDirt
from replay.faults_gpu import GpuFallenOffBus, MemoryDecay, NodeLost, Straggler, TelemetryStall, ThermalThrottle
from replay.faults_gpu_links import ClockLoss, NvlinkErrors, PcieDowntrain, PowerBrake, UncorrectableEcc
from replay.faults_hardware import SupplyFailed
from replay.faults_job import CheckpointsFail, JobCrash, JobHang, RepeatedXid
from replay.faults_lemon import FatalXid, LemonNode
from replay.faults_loop import CoolantAir, LoopMeterDrift
from replay.faults_plant import BreakerOverload, CoolantSpoiled, ExchangerFouled, FilterClogged, PowerSag
from replay.faults_plates import ColdPlateClogged, ControlledValves, ValveStuck
from replay.faults_switch import SwitchLost
from replay.layout import Layout
from replay.scenario import FaultPlan, Scenario, ScenarioError

FAULTS: tuple[type[Fault], ...] = (
    PduCascade,
    PumpFailure,
    CoolantLeak,
    FilterClogged,
    ExchangerFouled,
    CoolantSpoiled,
    CoolantAir,
    LoopMeterDrift,
    ColdPlateClogged,
    ValveStuck,
    PowerSag,
    BreakerOverload,
    NodeLost,
    SupplyFailed,
    GpuFallenOffBus,
    RepeatedXid,
    MemoryDecay,
    UncorrectableEcc,
    FatalXid,
    LemonNode,
    NvlinkErrors,
    PcieDowntrain,
    PowerBrake,
    ClockLoss,
    ThermalThrottle,
    Straggler,
    JobHang,
    JobCrash,
    CheckpointsFail,
    OpticDecay,
    DirtyConnector,
    LinkFlap,
    FiberBend,
    FiberDirt,
    FiberBreak,
    SwitchLost,
    LinkErrors,
    FecTail,
    ModuleUnwell,
    CongestedLink,
    SlowHop,
    TelemetryStall,
    TelemetryFrozen,
    ImplausibleReadings,
    SaturatedCounter,
    SourceRestarts,
    CounterStuck,
    ClockOff,
    PlannedDrain,
    ExporterRestart,
    LostSamples,
    FacilityStep,
    PowerCap,
    ControlledValves,
)


def faults_of(scenario: Scenario, layout: Layout) -> tuple[Fault, ...]:
    """The scenario's faults, each at a place that the topology has. Raises ScenarioError."""
    return tuple(_fault(scenario.name, plan, layout) for plan in scenario.faults)


def _fault(scenario: str, plan: FaultPlan, layout: Layout) -> Fault:
    named = {kind.name: kind for kind in FAULTS}
    if plan.fault not in named:
        raise ScenarioError(f"scenario {scenario}: fault {plan.fault!r} is not known{_hint(plan.fault, list(named))}")
    kind = named[plan.fault]
    given: dict[str, Any] = {"at_seconds": plan.at_seconds, "lasts_seconds": plan.lasts_seconds}
    if plan.entity is not None:
        given["entity"] = plan.entity
    if plan.roots:
        given["roots"] = plan.roots
    given.update(plan.parameters)
    known = fields(kind)  # type: ignore[arg-type]  # every fault is a dataclass
    for key in given:
        if key not in {each.name for each in known}:
            names = [each.name for each in known]
            raise ScenarioError(f"scenario {scenario}: fault {plan.fault} has no {key!r}{_hint(key, names)}")
    for each in known:
        if each.default is MISSING and each.name not in given:
            raise ScenarioError(f"scenario {scenario}: fault {plan.fault} needs {each.name}")
    fault = kind(**given)
    problem = fault.unknown(layout)
    if problem is not None:
        raise ScenarioError(f"scenario {scenario}: fault {plan.fault}: {problem}")
    return fault


def _hint(word: str, known: Sequence[str]) -> str:
    close = get_close_matches(word, known, n=1)
    return f": did you mean {close[0]}?" if close else f": choose from {', '.join(known)}"
