"""Fabric tables. Switches and HCAs alike, so that both ends of a link can be judged."""

import dataframely as dy

from schemas.columns import counter, flag, name, reading, sample_time, whole, word


class FabricPort(dy.Schema):
    """Counters and state of one port. A bit error rate of 0.0 means none observed, null not reported."""

    time = sample_time()
    device = name("switch, or HCA as node/hcaN")
    port = whole("port", 0, 4096, "port number on the device", nullable=False)
    state = word("logical state", "active", "armed", "init", "down")
    rate_gigabits_per_second = reading("gigabits per second", 0, 6400, "rate in use; null on a dead link")
    link_downed_total = counter("events", "times the link went down")
    link_error_recovery_total = counter("events", "times the link retrained itself")
    symbol_error_total = counter("errors", "symbol errors left after correction")
    receive_error_total = counter("packets", "packets received with errors")
    receive_remote_physical_error_total = counter("packets", "packets the other end marked bad")
    transmit_discard_total = counter("packets", "outbound packets dropped")
    transmit_wait_total = counter("ticks", "ticks with data to send and no credit: congestion, not damage")
    local_link_integrity_error_total = counter("events", "times the local error threshold was passed")
    excessive_buffer_overrun_total = counter("events", "consecutive flow-control overruns")
    fec_corrected_total = counter("codewords", "codewords the forward error correction repaired")
    fec_uncorrected_total = counter("codewords", "codewords it could not repair")
    transmit_bytes_total = counter("bytes", "bytes sent")
    receive_bytes_total = counter("bytes", "bytes received")
    raw_bit_error_rate = reading("errors per bit", 0, 1, "before correction")
    effective_bit_error_rate = reading("errors per bit", 0, 1, "after correction")
    symbol_bit_error_rate = reading("errors per bit", 0, 1, "symbol errors per bit")


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
    receive_power_alarm_low_dbm = reading("dBm", -60, 20, "the module's own low alarm")
    receive_power_warning_low_dbm = reading("dBm", -60, 20, "the module's own low warning")
    bias_alarm_high_milliamps = reading("milliamps", 0, 500, "the module's own high alarm")
    temperature_alarm_high_celsius = reading("celsius", 1, 150, "the module's own high alarm")
