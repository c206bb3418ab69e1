"""Claims about power, cooling, failures and money, each compared with what the parameters give."""

from collections.abc import Iterator

from schemas.topology_claims import ClusterClaims
from schemas.topology_contradiction import Contradiction
from schemas.topology_fabric_claims import differs
from schemas.topology_parameters import FabricParameters

GPU_WATTS = 700  # H100 SXM limit
NODE_KILOWATTS_MAXIMUM = 10.2  # DGX H100
LITERS_PER_GALLON = 3.785411784
GLYCOL_60_KILOJOULES_PER_LITER_KELVIN = 1.035 * 3.35  # kg/L x kJ/(kg K) at 50 C
GLYCOL_25_KILOJOULES_PER_LITER_KELVIN = 1.015 * 3.93
GLYCOL_PRACTICE_PERCENT = 30  # PG25, in practice 25 to 30
LEAK_ROPE_GLYCOL_PERCENT_MAXIMUM = 75  # a conductive leak rope trips up to here, so the coolant conducts
PLATE_JOULES_PER_KELVIN = 510  # 0.6 kg of copper and 60 mL of coolant
GPU_CELSIUS = (65, 87)  # under load, and the operating maximum of an H100 SXM
MAINS_HERTZ = 60
PSU_HOLD_UP_MILLISECONDS = 20
# Llama 3 405B: 419 unexpected interruptions in 54 days on 16,384 GPUs (arXiv 2407.21783, table 5).
PUBLISHED_FAILURES_PER_GPU_DAY = 419 / 54 / 16_384


def facility_claims(p: FabricParameters, claims: ClusterClaims) -> Iterator[Contradiction]:
    yield from _power(p, claims)
    yield from _power_loss(p, claims)
    yield from _coolant_flow(p, claims)
    yield from _ride_through(p, claims)
    yield from _failures(p, claims)
    yield from _recovery(claims)
    yield from _money(p, claims)


def _power(p: FabricParameters, claims: ClusterClaims) -> Iterator[Contradiction]:
    nodes_megawatts = p.nodes * NODE_KILOWATTS_MAXIMUM / 1000
    if differs(claims.power_megawatts, nodes_megawatts):
        yield Contradiction(
            "the nodes do not draw the power claimed",
            f"{p.nodes:,} nodes x {NODE_KILOWATTS_MAXIMUM} kW = {nodes_megawatts:.1f} MW before cooling, "
            f"claimed {claims.power_megawatts:g} MW in all (GPUs alone {_heat_kilowatts(p) / 1000:.1f} MW)",
        )
    if differs(claims.power_megawatts, claims.introduction_power_megawatts):
        yield Contradiction(
            "two totals of power are claimed",
            f"{claims.introduction_power_megawatts:g} MW / {claims.power_megawatts:g} MW = "
            f"{claims.introduction_power_megawatts / claims.power_megawatts:g} times",
        )


def _power_loss(p: FabricParameters, claims: ClusterClaims) -> Iterator[Contradiction]:
    wired = p.nodes_per_pdu * p.gpus_per_node
    lost = claims.cascade_pdus * claims.gpus_per_pdu
    half_cycle = 1000 / MAINS_HERTZ / 2
    if wired != claims.gpus_per_pdu:
        yield Contradiction(
            "a PDU does not feed the GPUs claimed",
            f"{p.nodes_per_pdu} nodes x {p.gpus_per_node} GPUs = {wired} per PDU, claimed {claims.gpus_per_pdu}",
        )
    if lost != claims.cascade_gpus:
        yield Contradiction(
            "the cascade's GPUs do not follow from its PDUs",
            f"{claims.cascade_pdus} PDUs x {claims.gpus_per_pdu} GPUs = {lost}, claimed {claims.cascade_gpus} = "
            f"{claims.cascade_gpus / claims.cascade_pdus:g} per PDU",
        )
    if claims.power_loss_detection_milliseconds < half_cycle:
        yield Contradiction(
            "power loss is detected before a meter can know",
            f"half a cycle at {MAINS_HERTZ} Hz = {half_cycle:.1f} ms for one rms value, "
            f"claimed {claims.power_loss_detection_milliseconds:g} ms",
        )
    if claims.cascade_checkpoint_milliseconds > PSU_HOLD_UP_MILLISECONDS:
        yield Contradiction(
            "GPUs without power cannot write the checkpoint claimed",
            f"claimed {claims.cascade_checkpoint_milliseconds:g} ms, supplies hold up {PSU_HOLD_UP_MILLISECONDS} ms",
        )


def _coolant_flow(p: FabricParameters, claims: ClusterClaims) -> Iterator[Contradiction]:
    heat, capacity = _heat_kilowatts(p), _coolant_capacity(claims)
    rise = claims.return_celsius - claims.supply_celsius
    needed = heat / (capacity * rise) * 60
    by_gpu = claims.flow_gallons_per_minute_per_gpu * LITERS_PER_GALLON * p.gpus
    for what, flow in (("flow per GPU", by_gpu), ("total flow", claims.flow_liters_per_minute)):
        if differs(flow, needed):
            actual = heat / (capacity * flow / 60)
            yield Contradiction(
                f"the {what} does not give the temperature rise claimed",
                f"{heat / 1000:.1f} MW / ({capacity:.2f} kJ/L/K x {rise:g} K) = {needed:,.0f} L/min, claimed "
                f"{flow:,.0f} L/min, which warms by {actual:.1f} K to {claims.supply_celsius + actual:.0f} C",
            )
    if differs(by_gpu, claims.flow_liters_per_minute):
        yield Contradiction(
            "the flow per GPU and the total flow exclude each other",
            f"{p.gpus:,} GPUs x {claims.flow_gallons_per_minute_per_gpu:g} gal/min = {by_gpu:,.0f} L/min, "
            f"claimed {claims.flow_liters_per_minute:,.0f} L/min",
        )
    if GLYCOL_PRACTICE_PERCENT < claims.glycol_percent <= LEAK_ROPE_GLYCOL_PERCENT_MAXIMUM:
        yield Contradiction(
            "the coolant is stronger than practice and conducts all the same",
            f"claimed {claims.glycol_percent:g} % glycol ({capacity:.2f} kJ/L/K, at 25 % "
            f"{GLYCOL_25_KILOJOULES_PER_LITER_KELVIN:.2f}); leak ropes trip up to {LEAK_ROPE_GLYCOL_PERCENT_MAXIMUM} %",
            "note",
        )


def _ride_through(p: FabricParameters, claims: ClusterClaims) -> Iterator[Contradiction]:
    heat, capacity = _heat_kilowatts(p), _coolant_capacity(claims)
    stored = claims.loop_volume_liters * capacity * claims.ride_through_kelvin
    if stored / heat < claims.ride_through_seconds:
        liters = heat * claims.ride_through_seconds / (capacity * claims.ride_through_kelvin)
        yield Contradiction(
            "the loop's volume does not give the time claimed",
            f"{claims.loop_volume_liters:g} L x {capacity:.2f} kJ/L/K x {claims.ride_through_kelvin:g} K / "
            f"{heat / 1000:.1f} MW = {stored / heat:.1f} s, claimed {claims.ride_through_seconds:g} s; that takes "
            f"{liters:,.0f} L, or one such loop for every {stored / claims.ride_through_seconds:.0f} kW",
        )
    cold, hot = GPU_CELSIUS
    plate_seconds = (hot - cold) * PLATE_JOULES_PER_KELVIN / GPU_WATTS
    if plate_seconds < claims.ride_through_seconds:
        yield Contradiction(
            "cold plates overheat sooner than claimed when pumps stop",
            f"{PLATE_JOULES_PER_KELVIN} J/K x ({hot} - {cold}) K / {GPU_WATTS} W = {plate_seconds:.0f} s, "
            f"claimed {claims.ride_through_seconds:g} s",
        )
    if claims.throttle_celsius < hot:
        yield Contradiction(
            "GPUs throttle later than claimed",
            f"operating maximum {hot} C, claimed {claims.throttle_celsius:g} C; read the margin, not the temperature",
            "note",
        )
    messages = p.gpus * 1000 / claims.valve_period_milliseconds
    if messages > 1e6:
        yield Contradiction(
            "valve control is not for a telemetry pipeline",
            f"{p.gpus:,} valves x {1000 / claims.valve_period_milliseconds:g} Hz = {messages:,.0f} messages/s",
            "note",
        )


def _failures(p: FabricParameters, claims: ClusterClaims) -> Iterator[Contradiction]:
    by_rate = p.gpus * claims.gpu_failures_percent_per_day / 100
    published = p.gpus * PUBLISHED_FAILURES_PER_GPU_DAY
    by_interval = 1440 / claims.mean_minutes_between_failures
    for low, high in claims.failures_per_day_ranges:
        if not low * 0.95 <= by_rate <= high * 1.05:
            span = f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"
            yield Contradiction(
                f"{span} failures a day do not follow from the rate claimed",
                f"{p.gpus:,} GPUs x {claims.gpu_failures_percent_per_day:g} % = {by_rate:.1f} a day, claimed {span}",
            )
    if differs(by_interval, by_rate):
        yield Contradiction(
            "the time between failures does not follow from the rate claimed",
            f"1,440 min / {by_rate:.1f} = {1440 / by_rate:.1f} min, claimed {claims.mean_minutes_between_failures:g} "
            f"min = {by_interval:.0f} a day; published rates give {published:.1f} a day",
        )


def _recovery(claims: ClusterClaims) -> Iterator[Contradiction]:
    waste = claims.checkpoint_interval_minutes / 2 / claims.mean_minutes_between_failures * 100
    longest = claims.recovery_seconds / claims.missed_acknowledgements
    if differs(claims.checkpoint_overhead_percent, waste):
        yield Contradiction(
            "the overhead of checkpoints does not follow from the time between failures",
            f"{claims.checkpoint_interval_minutes:g} min / 2 / {claims.mean_minutes_between_failures:g} min = "
            f"{waste:.1f} % lost work, claimed {claims.checkpoint_overhead_percent:g} %",
        )
    yield Contradiction(
        "the recovery time leaves no room for a slower heartbeat",
        f"{claims.missed_acknowledgements} missed beats within {claims.recovery_seconds:g} s = at most "
        f"{longest:.1f} s a beat with nothing left for the restore",
        "note",
    )


def _money(p: FabricParameters, claims: ClusterClaims) -> Iterator[Contradiction]:
    cluster_hours = p.gpus * 5 / 60
    cascade_hours = claims.cascade_gpus * claims.cascade_minutes / 60
    price, cascade_price = claims.five_minutes_dollars / cluster_hours, claims.cascade_dollars / cascade_hours
    if differs(cascade_price, price):
        yield Contradiction(
            "two prices of a GPU hour are implied",
            f"${claims.five_minutes_dollars:,.0f} / ({p.gpus:,} GPUs x 5 min = {cluster_hours:,.0f} h) = ${price:.2f}; "
            f"${claims.cascade_dollars:,.0f} / ({claims.cascade_gpus} GPUs x {claims.cascade_minutes:g} min = "
            f"{cascade_hours:.1f} h) = ${cascade_price:.0f}",
        )


def _heat_kilowatts(p: FabricParameters) -> float:
    return p.gpus * GPU_WATTS / 1000


def _coolant_capacity(claims: ClusterClaims) -> float:
    """KJ per litre and kelvin: the tabled mixture nearest to the claimed one."""
    strong = claims.glycol_percent > (25 + 60) / 2
    return GLYCOL_60_KILOJOULES_PER_LITER_KELVIN if strong else GLYCOL_25_KILOJOULES_PER_LITER_KELVIN
