"""GPU tables: one row per GPU and sample, and the events of its driver."""

import dataframely as dy

from schemas.columns import counter, flag, name, reading, sample_time, text, whole, word

CLOCKS_EVENT_IDLE = 0x1
CLOCKS_EVENT_APPLICATION_CLOCKS = 0x2
CLOCKS_EVENT_SOFTWARE_POWER_CAP = 0x4
CLOCKS_EVENT_HARDWARE_SLOWDOWN = 0x8
CLOCKS_EVENT_SYNC_BOOST = 0x10
CLOCKS_EVENT_SOFTWARE_THERMAL = 0x20
CLOCKS_EVENT_HARDWARE_THERMAL = 0x40
CLOCKS_EVENT_HARDWARE_POWER_BRAKE = 0x80


class Gpu(dy.Schema):
    """What a GPU reports of itself. Ranges are what hardware can show, not what is healthy."""

    time = sample_time()
    node = name("host, e.g. n00012")
    gpu = whole("slot", 0, 63, "slot in the node; the GPU's id is node/slot", nullable=False)
    uuid = text("the vendor's identifier")
    temperature_celsius = reading("celsius", -40, 150, "core temperature")
    thermal_margin_celsius = reading("celsius", -100, 200, "degrees left to the slowdown limit; counts down")
    memory_temperature_celsius = reading("celsius", -40, 150, "HBM temperature")
    power_watts = reading("watts", 0, 2000, "board power")
    sm_clock_megahertz = reading("megahertz", 0, 5000, "streaming multiprocessor clock")
    utilization_percent = reading("percent", 0, 100, "share of the interval with a kernel running")
    memory_used_bytes = counter("bytes", "frame buffer in use")
    clocks_event_reasons = whole("bits", 0, 2**40, "why the clock is below its maximum (NVML bit mask)")
    ecc_correctable_total = counter("errors", "corrected ECC errors")
    ecc_uncorrectable_total = counter("errors", "uncorrected ECC errors")
    rows_remapped_correctable_total = counter("rows", "rows remapped after correctable errors, lifetime")
    rows_remapped_uncorrectable_total = counter("rows", "rows remapped after uncorrectable errors, lifetime")
    row_remap_pending = flag("a remap waits for the next reset")
    row_remap_failure = flag("a row could not be remapped: the GPU is to be replaced")
    pcie_replay_total = counter("replays", "PCIe replays")
    pcie_generation = whole("generation", 1, 8, "PCIe generation in use")
    pcie_width = whole("lanes", 1, 32, "PCIe lanes in use")
    nvlink_crc_error_total = counter("errors", "NVLink CRC errors over all links")
    nvlink_replay_total = counter("replays", "NVLink replays over all links")
    nvlink_recovery_total = counter("recoveries", "NVLink recoveries over all links")
    energy_joules_total = reading("joules", 0, 1e15, "energy since driver load")


class GpuEvent(dy.Schema):
    """One driver or switch event. Events are never gauges: two equal ones in a row are two."""

    time = sample_time("when the kernel logged it")
    node = name("host")
    gpu = whole("slot", 0, 63, "slot, when the source knows it")
    pci = text("PCI address, domain:bus:device in lower case")
    kind = word("what was logged", "xid", "sxid", "fallen_off_bus", nullable=False)
    code = whole("code", 0, 2**31, "XID or SXID number")
    recovery_action = text("what the driver itself asks for (XID 154)")
    message = text("the line as logged")
