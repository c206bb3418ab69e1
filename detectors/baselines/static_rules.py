"""The rules of the field, as commonly deployed: one threshold a reading, no peers, no memory beyond the last sample."""

from collections.abc import Mapping
from dataclasses import dataclass

import dataframely as dy
import polars as pl

from detectors.contract import Context, Detection, evidence, findings_frame, ordered
from detectors.levels import LEVEL_COLUMNS, levels
from schemas.coolant import CoolantLoop
from schemas.fabric import FabricPort
from schemas.gpu import CLOCKS_EVENT_HARDWARE_POWER_BRAKE, CLOCKS_EVENT_HARDWARE_THERMAL, Gpu, GpuEvent
from schemas.power import Power
from schemas.topology import Topology

SLOT = pl.concat_str("node", pl.lit("/"), "gpu")
# NVIDIA's catalogue through gpud: XIDs that ask for a reset, a reboot or an inspection.
FATAL_XIDS = (46, 48, 62, 64, 74, 79, 95, 109, 119, 120, 136, 140, 143)
LINK_DOWN_SECONDS = 30.0  # NVIDIA health validation: one outage of 30 s is fatal
PLAIN = pl.Schema({**LEVEL_COLUMNS, "rule": pl.String()})


@dataclass(frozen=True, kw_only=True)
class StaticRules:
    """What a monitoring stack with the published rules says of one reading at a time.

    Sources: clocks event bits 0x40 and 0x80 (gpud), thermal margin 0 (NVML: at the maximum operating limit), row remap
    pending or failed and any uncorrected error (Azure NHC), NVLink CRC and replay thresholds of 0 a sample (GCM),
    PCIe below its width of 16 (Azure NHC), port down for 30 s (NVIDIA health validation), symbol BER above 1e-12
    (ibdiagnet), breaker not closed, volts below 90 % of 415 (EN 50160), leak warning, flow below 70 % of what a loop
    began with, fatal XIDs. A GPU or node that says nothing is not judged: rules of the field look at values.
    """

    flow_share: float = 0.7
    volts_minimum: float = 373.5
    symbol_ber: float = 1e-12

    @property
    def name(self) -> str:
        return "baseline.static_rules"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return (Gpu, GpuEvent, FabricPort, CoolantLoop, Power)

    @property
    def keeps(self) -> pl.Schema:
        """Levels by rule, and under the rule "last" what counters and flows said before."""
        return pl.Schema({**PLAIN, "value": pl.Float64()})

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        gpu = tables[Gpu].with_columns(entity=SLOT)
        reasons = pl.col("clocks_event_reasons")
        counted, kept = _risen(gpu, state)
        loops, flows = self._flows(tables[CoolantLoop], state)
        judged = (
            ("gpu_thermal_throttle", "gpu", 0.0, gpu,
             (reasons.and_(CLOCKS_EVENT_HARDWARE_THERMAL) != 0) | (pl.col("thermal_margin_celsius") <= 0)),
            ("gpu_power_brake", "gpu", 0.0, gpu, reasons.and_(CLOCKS_EVENT_HARDWARE_POWER_BRAKE) != 0),
            ("gpu_memory", "gpu", 0.0, gpu, pl.col("row_remap_pending") | pl.col("row_remap_failure")),
            ("gpu_pcie", "gpu", 0.0, gpu, pl.col("pcie_width") < 16),
            ("gpu_nvlink", "gpu", 0.0, counted, pl.col("rise") > 0),
            ("link_down", "link", LINK_DOWN_SECONDS, _links(tables[FabricPort], context.topology),
             pl.col("state") == "down"),
            ("link_degraded", "link", 0.0, _links(tables[FabricPort], context.topology),
             pl.col("symbol_bit_error_rate") > self.symbol_ber),
            ("power_domain_lost", "pdu", 0.0, tables[Power].with_columns(entity="pdu"), pl.col("breaker") != "closed"),
            ("power_sag", "pdu", 0.0, tables[Power].with_columns(entity="pdu"), pl.col("volts") < self.volts_minimum),
            ("coolant_leak", "cdu", 0.0, tables[CoolantLoop].with_columns(entity="cdu"),
             pl.col("leak_state").is_in(["warning", "critical"])),
            ("coolant_flow_restricted", "cdu", 0.0, loops, pl.col("share") < self.flow_share),
        )  # fmt: skip
        said, states = [_fatal(tables[GpuEvent], self.name)], []
        for cause, kind, lasts, rows, bad in judged:
            before = state.filter(pl.col("rule") == cause).select(LEVEL_COLUMNS.names())
            samples = rows.select("entity", "time", bad=bad)
            changes, after = levels(samples, before, for_seconds=lasts)
            said.append(_said(changes, self.name, cause, kind))
            states.append(after.with_columns(rule=pl.lit(cause), value=pl.lit(None, pl.Float64)))
        return Detection(ordered(*said), pl.concat([*states, kept, flows], how="diagonal").select(self.keeps.names()))

    def _flows(self, loops: pl.DataFrame, state: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Rows with their share of the first flow of their loop, and those first flows."""
        known = state.filter(pl.col("rule") == "flow").select("entity", "value")
        named = loops.with_columns(entity="cdu")
        first = named.group_by("entity").agg(value=pl.col("flow_liters_per_minute").first())
        first = pl.concat([known, first.join(known, on="entity", how="anti")])
        shared = named.join(first, on="entity", how="left", maintain_order="left")
        return (
            shared.with_columns(share=pl.col("flow_liters_per_minute") / pl.col("value")),
            first.with_columns(rule=pl.lit("flow")),
        )


def _risen(gpu: pl.DataFrame, state: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """NVLink errors since the sample before, and the last count of each GPU."""
    known = state.filter(pl.col("rule") == "last").select("entity", before="value")
    count = pl.col("nvlink_crc_error_total").cast(pl.Float64)
    rows = gpu.with_columns(count=count).join(known, on="entity", how="left", maintain_order="left")
    rows = rows.with_columns(rise=count - count.shift(1).over("entity").fill_null(pl.col("before")))
    last = rows.group_by("entity").agg(value=pl.col("count").drop_nulls().last())
    kept = pl.concat([last, known.rename({"before": "value"}).join(last, on="entity", how="anti")])
    return rows, kept.drop_nulls().with_columns(rule=pl.lit("last"))


def _links(ports: pl.DataFrame, topology: Topology) -> pl.DataFrame:
    """Each port's rows under the name of its cable."""
    cables = topology.ports.select("device", "port", entity="cable")
    return ports.join(cables, on=["device", "port"], how="inner", maintain_order="left")


def _fatal(events: pl.DataFrame, name: str) -> pl.DataFrame:
    fatal = events.filter(pl.col("code").is_in(FATAL_XIDS) & pl.col("gpu").is_not_null() & (pl.col("kind") == "xid"))
    cause = pl.when(pl.col("code") == 79).then(pl.lit("gpu_fallen_off_bus")).otherwise(pl.lit("gpu_fatal_error"))
    rows = fatal.with_columns(
        evidence("code"), entity=SLOT, active=pl.lit(True), first_bad_at="time", cause=cause, severity=pl.lit("page"),
        score=pl.lit(1.0), threshold=pl.lit(1.0), code=pl.col("code").cast(pl.String), action=pl.lit("drain_node"),
    )  # fmt: skip
    return pl.concat(
        findings_frame(rows.filter(pl.col("cause") == each).drop("kind"), name, each, "gpu")
        for each in ("gpu_fallen_off_bus", "gpu_fatal_error")
    )


def _said(changes: pl.DataFrame, name: str, cause: str, kind: str) -> pl.DataFrame:
    rows = changes.with_columns(
        evidence("entity"), code=pl.lit("rule"), severity=pl.lit("page"), action=pl.lit("open_ticket"),
        score=pl.lit(1.0), threshold=pl.lit(1.0),
    )  # fmt: skip
    return findings_frame(rows, name, cause, kind)
