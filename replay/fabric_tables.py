"""What switches and HCAs say of their ports and modules: fabric_port and optic rows of a block."""

import numpy as np
import polars as pl

from replay.cluster import FACILITY_CELSIUS, Block
from replay.conditions import Conditions
from replay.fec_histogram import FecHistogram
from replay.layout import Layout
from replay.randomness import Array, Flags, Floats, Integers, generator
from replay.rows import sampled_rows, ticks_of

DEFAULT_GIGABITS = 400.0
LOAD_SHARE = 0.35  # of the line rate, averaged over compute and communication
# Bit errors before correction of links in service, as a power of ten; the alarm gate is 1e-6 (domain.md 4.4).
RAW_DECADES, RAW_DECADES_SPREAD = -8.5, 0.4
SYMBOL_ERRORS_PER_SECOND = 1e-8  # stray ones of a healthy link: three years apart
# Modules of a 400G 4 x 100G single-mode capture (domain.md 4.4): live lanes draw 73 to 110 mA.
RECEIVE_ALARM_LOW_DBM, RECEIVE_WARNING_LOW_DBM = -8.9, -6.9
BIAS_ALARM_HIGH_MILLIAMPS, TEMPERATURE_ALARM_HIGH_CELSIUS = 130.0, 75.0


class FabricTables:
    """Counters start anywhere and are carried. Both ends of a link are there, each with its own counters."""

    def __init__(self, seed: int, layout: Layout, starts_at: int, port_interval: int, optic_interval: int) -> None:
        drawn = generator(seed, "fabric")
        ends, lanes = len(layout.fabric.end_device), layout.fabric.link_lanes
        self.seed, self.layout, self.starts_at = seed, layout, starts_at
        self.port_interval, self.optic_interval = port_interval, optic_interval
        gbps = np.array([rate or DEFAULT_GIGABITS for rate in layout.fabric.link_gbps])
        self.gigabits = gbps[layout.fabric.end_link] if ends else np.zeros(0)
        self.raw_decades = np.clip(drawn.normal(RAW_DECADES, RAW_DECADES_SPREAD, ends), -10.0, -7.3)
        self.load = np.clip(drawn.normal(LOAD_SHARE, 0.04, ends), 0.1, 0.6) * self.gigabits * 1e9 / 8
        self.waits_per_second = drawn.lognormal(8.0, 1.0, ends)
        self.sent = drawn.integers(0, 2**50, ends).astype(np.float64)
        self.received = drawn.integers(0, 2**50, ends).astype(np.float64)
        self.waits = drawn.integers(0, 2**34, ends).astype(np.float64)
        self.downed = drawn.integers(0, 4, len(layout.fabric.cables))[layout.fabric.end_link] if ends else np.zeros(0)
        self.recoveries = drawn.integers(0, 3, ends)
        self.symbol_errors = np.where(drawn.random(ends) < 0.02, drawn.integers(1, 30, ends), 0)
        self.corrected = drawn.integers(0, 2**40, ends)
        self.uncorrected = np.where(drawn.random(ends) < 0.01, drawn.integers(1, 5, ends), 0)
        still = {
            "receive_error_total": np.where(drawn.random(ends) < 0.03, drawn.integers(1, 50, ends), 0),
            "receive_remote_physical_error_total": np.zeros(ends, dtype=np.int64),
            "transmit_discard_total": np.where(drawn.random(ends) < 0.1, drawn.integers(1, 400, ends), 0),
            "local_link_integrity_error_total": np.zeros(ends, dtype=np.int64),
            "excessive_buffer_overrun_total": np.zeros(ends, dtype=np.int64),
        }
        names = pl.DataFrame(
            {"device": layout.fabric.end_device, "port": layout.fabric.end_port},
            schema={"device": pl.String, "port": pl.Int64},
        )
        self.discards = still.pop("transmit_discard_total").astype(np.float64)
        self.ports = names.with_columns(pl.Series(name, values) for name, values in still.items())
        self.transmit_dbm = drawn.normal(1.5, 0.45, (ends, lanes))
        self.path_loss_db = np.clip(drawn.normal(1.2, 0.3, (ends, lanes)), 0.4, 2.2)
        self.bias = drawn.uniform(73, 105, (ends, 1)) + drawn.normal(0, 2.0, (ends, lanes))
        self.module_celsius = drawn.normal(52.0, 3.0, ends)
        self.supply_volts = drawn.normal(3.3, 0.015, ends)
        self.modules = names.select(pl.all().repeat_by(lanes).explode()).with_columns(
            lane=pl.Series(np.tile(np.arange(lanes), ends), dtype=pl.Int64)
        )
        self.histogram = FecHistogram(seed, self.gigabits, self.raw_decades)
        self._was_up = np.ones(len(layout.fabric.cables), dtype=np.bool_)

    def fabric_port(self, number: int, block: Block, conditions: Conditions) -> pl.DataFrame:
        noise = generator(self.seed, "fabric_port", number)
        ticks = ticks_of(block.seconds, self.port_interval)
        up, downs = self._link_states(block, conditions)
        decades, bursts, share = (
            conditions.get(name) for name in ("raw_error_decades", "fec_burst_share", "rate_share")
        )
        rows: dict[str, list[Array]] = {}
        histograms: list[Integers] = []
        begin = 0
        for tick in [*ticks, len(block.seconds)]:
            self._count(block, slice(begin, tick), up, downs, conditions)
            end_up = up[min(tick, len(up) - 1)][self.layout.fabric.end_link]
            worse = 0.0 if decades is None else decades[min(tick, len(decades) - 1)]
            raw = 10.0 ** (self.raw_decades + worse + 0.04 * noise.standard_normal(len(end_up)))
            seconds, last = end_up * float(tick - begin), min(tick, len(up) - 1)
            effective, symbol = self._correct(noise, raw, seconds)
            bins = self.histogram.count(number, tick, raw, seconds, 0.0 if bursts is None else bursts[last])
            begin = tick
            if tick == len(block.seconds):
                break
            dead = np.where(end_up, 0.0, np.nan)
            readings = {
                "up": end_up,
                "rate_gigabits_per_second": self._rate(share, last) + dead,
                "link_downed_total": self.downed,
                "link_error_recovery_total": self.recoveries,
                "symbol_error_total": self.symbol_errors,
                "transmit_wait_total": self.waits.astype(np.int64),
                "transmit_discard_total": self.discards.astype(np.int64),
                "fec_corrected_total": self.corrected,
                "fec_uncorrected_total": self.uncorrected,
                "transmit_bytes_total": self.sent.astype(np.int64),
                "receive_bytes_total": self.received.astype(np.int64),
                "raw_bit_error_rate": _digits(raw) + dead,
                "effective_bit_error_rate": _digits(effective) + dead,
                "symbol_bit_error_rate": _digits(symbol) + dead,
            }
            for name, values in readings.items():
                rows.setdefault(name, []).append(np.array(values))
            histograms.append(bins)
        stacked = {name: np.concatenate(values) for name, values in rows.items()}
        state = pl.Series(stacked.pop("up", np.zeros(0, dtype=np.bool_))).replace_strict(
            {True: "active", False: "down"}, return_dtype=pl.String
        )
        kept = self._sending(block, conditions, "fabric_port", ticks)
        return sampled_rows(
            "fabric_port", self.ports, self.layout.fabric.end_offset, self._times(block, ticks),
            {**stacked, "state": state, "fec_histogram": _lists(histograms)}, kept,
        )  # fmt: skip

    def optic(self, number: int, block: Block, conditions: Conditions) -> pl.DataFrame:
        noise = generator(self.seed, "optic", number)
        ticks = ticks_of(block.seconds, self.optic_interval)
        shape = (len(ticks), *self.bias.shape)
        sent = np.broadcast_to(self.transmit_dbm, shape).copy()
        bias = np.broadcast_to(self.bias, shape).copy()
        lost = np.broadcast_to(self.path_loss_db, shape).copy()
        for shift in conditions.optic_shifts:
            lanes = slice(None) if shift.lane is None else shift.lane
            at = (slice(None), shift.end, lanes)
            by_tick = (slice(None), None) if shift.lane is None else (slice(None),)
            sent[at] -= shift.transmit_db[ticks][by_tick]
            lost[at] += shift.receive_db[ticks][by_tick]
            bias[at] *= shift.bias_factor[ticks][by_tick]
        received = sent[:, self.layout.fabric.end_far] - lost + 0.03 * noise.standard_normal(shape)
        lit = self._powered(block, ticks)[:, self.layout.fabric.end_far]
        hall = block.facility[ticks].mean(axis=1, keepdims=True) - FACILITY_CELSIUS if block.facility.size else 0.0
        warm = self.module_celsius + hall + 0.2 * noise.standard_normal(shape[:2])
        volts = self.supply_volts + 0.003 * noise.standard_normal(shape[:2])
        hotter, lower = conditions.get("module_rise_kelvin"), conditions.get("module_volts_shift")
        warm = warm if hotter is None else warm + hotter[ticks]
        volts = volts if lower is None else volts + lower[ticks]
        light = np.repeat(lit, shape[2], axis=1) & (received.reshape(len(ticks), -1) > -30.0)
        readings = {
            "light": light,
            "receive_power_dbm": np.where(light, np.round(received, 2).reshape(light.shape), np.nan),
            "transmit_power_dbm": np.round(sent + 0.02 * noise.standard_normal(shape), 2),
            "bias_milliamps": np.round(bias + 0.15 * noise.standard_normal(shape), 2),
            "module_temperature_celsius": np.repeat(np.round(warm, 1), shape[2], axis=1),
            "supply_volts": np.repeat(np.round(volts, 3), shape[2], axis=1),
            "receive_power_alarm_low_dbm": np.full(shape, RECEIVE_ALARM_LOW_DBM),
            "receive_power_warning_low_dbm": np.full(shape, RECEIVE_WARNING_LOW_DBM),
            "bias_alarm_high_milliamps": np.full(shape, BIAS_ALARM_HIGH_MILLIAMPS),
            "temperature_alarm_high_celsius": np.full(shape, TEMPERATURE_ALARM_HIGH_CELSIUS),
        }
        kept = np.repeat(self._sending(block, conditions, "optic", ticks), shape[2], axis=1)
        offsets = np.repeat(self.layout.fabric.end_offset, shape[2])
        return sampled_rows("optic", self.modules, offsets, self._times(block, ticks), readings, kept)

    def _times(self, block: Block, ticks: Integers) -> Integers:
        return self.starts_at + block.seconds[ticks].astype(np.int64) * 1_000_000

    def _powered(self, block: Block, ticks: Integers) -> Flags:
        """(ticks, e) whether the end's host runs; switches always do."""
        with_switches = np.append(block.node_on[ticks], np.ones((len(ticks), 1), dtype=np.bool_), axis=1)
        return with_switches[:, self.layout.fabric.end_node]

    def _sending(self, block: Block, conditions: Conditions, table: str, ticks: Integers) -> Flags:
        silent, mute = conditions.silent.get(table), conditions.get("end_silent")
        powered = self._powered(block, ticks)
        if mute is not None:
            powered &= ~mute[ticks]
        if silent is None:
            return powered
        quiet = np.append(silent[ticks], np.zeros((len(ticks), 1), dtype=np.bool_), axis=1)
        return powered & ~quiet[:, self.layout.fabric.end_node]

    def _link_states(self, block: Block, conditions: Conditions) -> tuple[Flags, Flags]:
        """(t, l) links that are up; (t, l) links that went down in that second."""
        links, given = self.layout.fabric.link_ends, conditions.get("link_on")
        length = len(block.seconds)
        up = np.ones((length, len(links)), dtype=np.bool_) if given is None else given.copy()
        if not block.node_on.all():
            powered = self._powered(block, np.arange(length))
            up &= powered[:, links[:, 0]] & powered[:, links[:, 1]]
        before = np.concatenate([self._was_up[None, :], up[:-1]])
        self._was_up = up[-1]
        return up, before & ~up

    def _rate(self, share: Array | None, second: int) -> Floats:
        return np.asarray(
            self.gigabits if share is None else self.gigabits * share[second][self.layout.fabric.end_link]
        )

    def _count(self, block: Block, span: slice, up: Flags, downs: Flags, conditions: Conditions) -> None:
        """Traffic, congestion and link losses of the span's seconds."""
        if span.start == span.stop:
            return
        worked = block.activity[span] @ up[span].astype(np.float64)
        busy = worked[self.layout.fabric.end_link]
        self.sent += self.load * busy
        self.received += (self.load * busy)[self.layout.fabric.end_far]
        self.waits += self.waits_per_second * busy
        waits, discards = conditions.get("wait_ticks_per_second"), conditions.get("discards_per_second")
        self.waits += 0 if waits is None else block.activity[span] @ waits[span]
        self.discards += 0 if discards is None else block.activity[span] @ discards[span]
        fallen = downs[span].sum(axis=0)[self.layout.fabric.end_link]
        self.downed = self.downed + fallen
        self.recoveries = self.recoveries + fallen

    def _correct(self, noise: np.random.Generator, raw: Floats, seconds: Floats) -> tuple[Floats, Floats]:
        """Count what error correction repaired and what it could not; return effective and symbol error rates.

        Correction holds to about 1e-5 raw; from there the rest rises six decades per decade (an assumption between
        the 1e-12 gate and the KP4 limit of 2.4e-4, domain.md 4.4). None observed is 0.0.
        """
        bits = self.gigabits * 1e9 * seconds
        self.corrected = self.corrected + noise.poisson(np.minimum(raw * bits, 1e15))
        left = np.minimum(10.0 ** (-13.0 + 6.0 * (np.log10(raw) + 5.0)), raw) * bits
        missed = noise.poisson(np.where(left > 1e-3, left, 0.0))
        symbols = noise.poisson(np.where(left > 1e-3, left / 2, SYMBOL_ERRORS_PER_SECOND * seconds))
        self.symbol_errors = self.symbol_errors + symbols
        self.uncorrected = self.uncorrected + missed // 20
        seen = np.maximum(bits, 1.0)
        return missed / seen, np.where(left > 1e-3, symbols / seen, 0.0)


def _lists(histograms: list[Integers]) -> pl.Series:
    """A list of bins a row."""
    if not histograms:
        return pl.Series(values=[], dtype=pl.List(pl.Int64))
    return pl.Series(np.concatenate(histograms)).arr.to_list()


def _digits(rate: Floats) -> Floats:
    """Three significant digits, as ports report rates."""
    exponent = np.floor(np.log10(np.maximum(rate, 1e-300)))
    scale = 10.0 ** (2 - exponent)
    return np.asarray(np.where(rate > 0, np.rint(rate * scale) / scale, 0.0))
