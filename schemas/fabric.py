"""Fabric tables. Switches and HCAs alike, so that both ends of a link can be judged."""

import dataframely as dy

from schemas.columns import counter, flag, name, reading, sample_time, whole, word

# Bits of the error counters of InfiniBand's PortCounters (IBA volume 1, 16.1.3.5). They stop at their top and do not
# wrap: 255, 65535 and 4294967295 have been seen on live ports, and such a counter is stuck, not healthy.
CLASSIC_COUNTER_BITS = {
    "symbol_error_total": 16,
    "link_error_recovery_total": 8,
    "link_downed_total": 8,
    "receive_error_total": 16,
    "receive_remote_physical_error_total": 16,
    "receive_switch_relay_error_total": 16,
    "transmit_discard_total": 16,
    "transmit_constraint_error_total": 8,
    "receive_constraint_error_total": 8,
    "local_link_integrity_error_total": 4,
    "excessive_buffer_overrun_total": 4,
    "vl15_dropped_total": 16,
    "transmit_wait_total": 32,
}


class FabricPort(dy.Schema):
    """Counters and state of one port. A bit error rate of 0.0 means none observed, null not reported.

    counter_width says how far the error counters reach: the same 65535 is the stuck top of a classic counter and a
    plain count of an extended one. A sample of changes only leaves null what has not changed.
    """

    time = sample_time()
    device = name("switch, or HCA as node/hcaN")
    port = whole("port", 0, 4096, "port number on the device", nullable=False)
    state = word("logical state", "active", "armed", "init", "down")
    physical_state = word(
        "state of the line below it",
        "link_up", "polling", "training", "disabled", "sleep", "error_recovery", "test",
    )  # fmt: skip
    rate_gigabits_per_second = reading("gigabits per second", 0, 6400, "rate in use; null on a dead link")
    width_lanes = whole("lanes", 1, 16, "lanes in use; fewer than the cable has is a degraded link")
    counter_width = word(
        "reach of the error counters: classic ones stop at 15, 255, 65535 or 4294967295, extended ones have 64 bits",
        "classic", "extended",
    )  # fmt: skip
    link_downed_total = counter("events", "times the link went down")
    link_error_recovery_total = counter("events", "times the link retrained itself")
    symbol_error_total = counter("errors", "symbol errors left after correction")
    receive_error_total = counter("packets", "packets received with errors")
    receive_remote_physical_error_total = counter("packets", "packets the other end marked bad")
    receive_switch_relay_error_total = counter("packets", "packets received that the switch could not pass on")
    receive_constraint_error_total = counter("packets", "packets received and refused by a partition or raw rule")
    receive_local_physical_error_total = counter("packets", "packets received with an error of this link")
    receive_malformed_total = counter("packets", "packets received that are malformed")
    receive_buffer_overrun_total = counter("packets", "packets received and lost for want of a buffer")
    transmit_constraint_error_total = counter("packets", "packets refused before sending")
    vl15_dropped_total = counter("packets", "management packets dropped for want of a buffer")
    transmit_discard_total = counter("packets", "outbound packets dropped")
    transmit_wait_total = counter("ticks", "ticks with data to send and no credit: congestion, not damage")
    pause_received_total = counter("frames", "pause frames received, over all priorities: the far end is full")
    pause_sent_total = counter("frames", "pause frames sent, over all priorities: this end is full")
    local_link_integrity_error_total = counter("events", "times the local error threshold was passed")
    excessive_buffer_overrun_total = counter("events", "consecutive flow-control overruns")
    fec_corrected_total = counter("codewords", "codewords the forward error correction repaired")
    fec_uncorrected_total = counter("codewords", "codewords it could not repair")
    fec_symbol_error_total = counter("symbols", "symbols the forward error correction found wrong")
    fec_histogram = dy.List(
        dy.Int64(nullable=False, min=0),
        nullable=True,
        metadata={"unit": "codewords"},
        description="codewords by how many of their symbols were corrected, from 0; a growing tail precedes a failure",
    )
    transmit_bytes_total = counter("bytes", "bytes sent")
    receive_bytes_total = counter("bytes", "bytes received")
    transmit_packets_total = counter("packets", "packets sent")
    receive_packets_total = counter("packets", "packets received")
    raw_bit_error_rate = reading("errors per bit", 0, 1, "before correction")
    effective_bit_error_rate = reading("errors per bit", 0, 1, "after correction")
    symbol_bit_error_rate = reading("errors per bit", 0, 1, "symbol errors per bit")
    effective_error_total = counter("errors", "errors left after correction")
    seconds_since_clear = reading("seconds", 0, 1e10, "since the port's counters were last cleared, where it says so")


class Optic(dy.Schema):
    """One lane of one transceiver. A dark lane has null power and light = false."""

    time = sample_time()
    device = name("switch, or HCA as node/hcaN")
    port = whole("port", 0, 4096, "port number on the device", nullable=False)
    lane = whole("lane", 0, 16, "lane of the module", nullable=False)
    light = flag("whether the receiver sees light")
    receive_power_dbm = reading("dBm", -40, 20, "light received")
    transmit_power_dbm = reading("dBm", -40, 20, "light sent")
    bias_milliamps = reading("milliamps", 0, 500, "laser bias current")
    module_temperature_celsius = reading("celsius", -40, 150, "case temperature of the module")
    supply_volts = reading("volts", 0, 10, "supply voltage of the module")
    signal_to_noise_db = reading("dB", 0, 100, "of the light received")
    raw_bit_error_rate = reading("errors per bit", 0, 1, "of this lane before correction; 0.0 means none observed")
    raw_error_total = counter("bits", "wrong bits of this lane before correction")
    receive_power_alarm_low_dbm = reading("dBm", -60, 20, "the module's own low alarm")
    receive_power_warning_low_dbm = reading("dBm", -60, 20, "the module's own low warning")
    receive_power_alarm_high_dbm = reading("dBm", -60, 20, "the module's own high alarm")
    transmit_power_alarm_low_dbm = reading("dBm", -60, 20, "the module's own low alarm")
    bias_alarm_high_milliamps = reading("milliamps", 0, 500, "the module's own high alarm")
    temperature_alarm_high_celsius = reading("celsius", 1, 150, "the module's own high alarm")
