"""`nvidia-smi -q` to gpu: an indented tree of `key : value unit`, one branch per GPU."""

from dataclasses import dataclass

import polars as pl

from schemas.formats import payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable, rejects_frame
from schemas.formats.gpu_readings import pci_address
from schemas.formats.nvidia_smi_cells import missing, rows

NAME = "nvidia-smi -q text"
VERSIONS = "nvidia-smi -q of drivers 590 and 595"
LEAVES = "processes, clock limits, MIG instances, reason counters in us"
BANNER = "NVSMI LOG"
INDENT = 4

# The tree's path, from the GPU's branch on -> --query-gpu field. Old and new spellings of a driver are two lines.
PATHS = {
    "GPU UUID": "uuid",
    "Minor Number": "minor_number",
    "PCI/Bus Id": "pci.bus_id",
    "PCI/GPU Link Info/PCIe Generation/Current": "pcie.link.gen.current",
    "PCI/GPU Link Info/PCIe Generation/Device Current": "pcie.link.gen.gpucurrent",
    "PCI/GPU Link Info/Link Width/Current": "pcie.link.width.current",
    "PCI/Replays Since Reset": "pcie.replay",
    "FB Memory Usage/Used": "memory.used",
    "Utilization/GPU": "utilization.gpu",
    "Utilization/Gpu": "utilization.gpu",
    "Temperature/GPU Current Temp": "temperature.gpu",
    "Temperature/GPU T.Limit Temp": "temperature.gpu.tlimit",
    "Temperature/Memory Current Temp": "temperature.memory",
    "Clocks/SM": "clocks.current.sm",
    "Remapped Rows/Correctable Error": "remapped_rows.correctable",
    "Remapped Rows/Uncorrectable Error": "remapped_rows.uncorrectable",
    "Remapped Rows/Pending": "remapped_rows.pending",
    "Remapped Rows/Remapping Failure Occurred": "remapped_rows.failure",
    "Power Readings/Power Draw": "power.draw",
    "GPU Power Readings/Power Draw": "power.draw",
    "GPU Power Readings/Average Power Draw": "power.draw.average",
    "GPU Power Readings/Instantaneous Power Draw": "power.draw.instant",
} | {
    f"ECC Errors/{branch}/{words}": f"ecc.errors.{field}"
    for branch, span in (("Volatile", "volatile"), ("Aggregate", "aggregate"))
    for words, field in (
        ("SRAM Correctable", f"corrected.{span}.sram"),
        ("DRAM Correctable", f"corrected.{span}.dram"),
        ("SRAM Uncorrectable", f"uncorrected.{span}.sram"),
        ("SRAM Uncorrectable Parity", f"uncorrected.{span}.sram.parity"),
        ("SRAM Uncorrectable SEC-DED", f"uncorrected.{span}.sram.secded"),
        ("DRAM Uncorrectable", f"uncorrected.{span}.dram"),
    )
} | {
    f"Clocks {branch} Reasons/{words}": f"clocks_event_reasons.{field}"
    for branch in ("Event", "Throttle")
    for words, field in (
        ("Idle", "gpu_idle"),
        ("Applications Clocks Setting", "applications_clocks_setting"),
        ("SW Power Cap", "sw_power_cap"),
        ("HW Slowdown", "hw_slowdown"),
        ("HW Slowdown/HW Thermal Slowdown", "hw_thermal_slowdown"),
        ("HW Slowdown/HW Power Brake Slowdown", "hw_power_brake_slowdown"),
        ("Sync Boost", "sync_boost"),
        ("SW Thermal Slowdown", "sw_thermal_slowdown"),
    )
}  # fmt: skip


def looks_like(head: bytes, name: str) -> bool:  # noqa: ARG001  every format answers to the same question
    return BANNER in payload.head_text(head)[:400]


def decode(data: bytes, surroundings: Surroundings) -> Decoded:
    """Rows of gpu, one per GPU and log in the file (`-q -l` writes several). Slot: the order of the GPUs, which is the
    driver's; when fewer are shown than attached, the minor number of the device file.
    """
    return decode_lines(payload.text(data, surroundings, NAME).splitlines(), surroundings)


def decode_lines(lines: list[str], surroundings: Surroundings, first_line: int = 1) -> Decoded:
    """As decode, for lines that stand at `first_line` of a larger file."""
    frames: list[pl.DataFrame] = []
    rejects: list[Reject] = []
    logs = [log for log in _logs(lines) if log.gpus]
    if not logs:
        raise Unreadable(f"{NAME}: line {first_line}: no line `GPU <PCI address>` under a banner {BANNER!r}")
    for log in logs:
        order = slots(log.header.get("Attached GPUs"), [gpu.pop("minor_number", None) for gpu in log.gpus])
        cells = pl.DataFrame(log.gpus, schema=dict.fromkeys({field for gpu in log.gpus for field in gpu}, pl.String))
        cells = cells.with_columns(pl.Series("slot", order, dtype=pl.Int64))
        if "Timestamp" in log.header:
            cells = cells.with_columns(pl.lit(log.header["Timestamp"]).alias("timestamp"))
        rejects += [
            Reject(rule="gpu|slot", reason=f"{NAME}: GPU {pci} is one of a part and has no minor number")
            for pci, slot in zip(cells["pci.bus_id"], order, strict=True) if slot is None
        ]  # fmt: skip
        frame, wrong = rows(cells.filter(pl.col("slot").is_not_null()), {}, surroundings)
        frames.append(frame)
        rejects += wrong
    gpu = pl.concat(frames, how="diagonal")
    tables = {"gpu": gpu} if gpu.height else {}
    return Decoded(tables=tables, rejects=rejects_frame(rejects, "gpu"), missing=missing(gpu))


def slots(attached: str | None, minor_numbers: list[str | None]) -> list[int | None]:
    """Slots of the GPUs of one log, in its order: all attached ones are numbered in order, a part by minor number."""
    if attached is None or attached == str(len(minor_numbers)):
        return list(range(len(minor_numbers)))
    return [int(minor) if minor and minor.isdecimal() and len(minor) <= 2 else None for minor in minor_numbers]


@dataclass
class _Log:
    """One log: its header, and field -> cell of each GPU. Minor Number is kept among the fields."""

    header: dict[str, str]
    gpus: list[dict[str, str]]


def _logs(lines: list[str]) -> list[_Log]:
    logs: list[_Log] = []
    path: list[str] = []
    for line in lines:
        key, colon, value = line.partition(" : ")
        depth = (len(line) - len(line.lstrip(" "))) // INDENT
        key = key.strip()
        if BANNER in line:
            logs.append(_Log({}, []))
        elif not logs:
            continue
        elif depth == 0 and colon:
            logs[-1].header[key] = value.strip()
        elif depth == 0 and key.startswith("GPU ") and pci_address(key[4:]):
            logs[-1].gpus.append({"pci.bus_id": key[4:]})
        elif depth and logs[-1].gpus:
            path = [*path[: depth - 1], key]
            if colon and (field := PATHS.get("/".join(path))):
                logs[-1].gpus[-1][field] = value.strip()
    return logs
