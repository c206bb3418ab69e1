"""`nvidia-smi -q -x` to gpu, DTD v10 to v13. Nodes were renamed from one DTD to the next and any of them may be
missing; some captures have no DTD line or no driver version.

The parser is expat with entity declarations refused: an entity is what XML bombs are made of, and nvidia-smi has none.
The external DTD is never fetched.
"""

from xml.parsers import expat

import polars as pl

from schemas.formats import payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable, rejects_frame
from schemas.formats.nvidia_smi_cells import missing, rows
from schemas.formats.nvidia_smi_text import slots

NAME = "nvidia-smi XML"
VERSIONS = "nvsmi_device DTD v10 to v13, with and without the DTD line"
LEAVES = (
    "processes, encoder and frame buffer sessions, clock limits, MIG instances, violation and reason counters in us"
)
DEPTH_MAXIMUM = 32
GPU_PATH = ["nvidia_smi_log", "gpu"]

# Path below <gpu> -> --query-gpu field. Old and new spellings are two lines.
PATHS = {
    "uuid": "uuid",
    "pci/pci_bus_id": "pci.bus_id",
    "pci/pci_gpu_link_info/pcie_gen/current_link_gen": "pcie.link.gen.current",
    "pci/pci_gpu_link_info/pcie_gen/device_current_link_gen": "pcie.link.gen.gpucurrent",
    "pci/pci_gpu_link_info/link_widths/current_link_width": "pcie.link.width.current",
    "pci/replay_counter": "pcie.replay",
    "fb_memory_usage/used": "memory.used",
    "utilization/gpu_util": "utilization.gpu",
    "temperature/gpu_temp": "temperature.gpu",
    "temperature/gpu_temp_tlimit": "temperature.gpu.tlimit",
    "temperature/memory_temp": "temperature.memory",
    "clocks/sm_clock": "clocks.current.sm",
    "remapped_rows/remapped_row_corr": "remapped_rows.correctable",
    "remapped_rows/remapped_row_unc": "remapped_rows.uncorrectable",
    "remapped_rows/remapped_row_pending": "remapped_rows.pending",
    "remapped_rows/remapped_row_failure": "remapped_rows.failure",
    "power_readings/power_draw": "power.draw",
    "gpu_power_readings/power_draw": "power.draw",
    "gpu_power_readings/average_power_draw": "power.draw.average",
    "gpu_power_readings/instant_power_draw": "power.draw.instant",
} | {
    f"ecc_errors/{span}/{node}": f"ecc.errors.{field}"
    for span in ("volatile", "aggregate")
    for node, field in (
        ("sram_correctable", f"corrected.{span}.sram"),
        ("dram_correctable", f"corrected.{span}.dram"),
        ("sram_uncorrectable", f"uncorrected.{span}.sram"),
        ("sram_uncorrectable_parity", f"uncorrected.{span}.sram.parity"),
        ("sram_uncorrectable_secded", f"uncorrected.{span}.sram.secded"),
        ("dram_uncorrectable", f"uncorrected.{span}.dram"),
        ("single_bit/total", f"corrected.{span}.total"),  # v10, before Turing
        ("double_bit/total", f"uncorrected.{span}.total"),
    )
} | {
    f"clocks_{name}_reasons/clocks_{name}_reason_{reason}": f"clocks_event_reasons.{reason}"
    for name in ("throttle", "event")
    for reason in (
        "gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "hw_thermal_slowdown",
        "hw_power_brake_slowdown", "sync_boost", "sw_thermal_slowdown",
    )
}  # fmt: skip


class _Log:
    """What the parser has seen so far: texts of the header, and field -> text of each GPU."""

    def __init__(self) -> None:
        self.path: list[str] = []
        self.text: list[str] = []
        self.header: dict[str, str] = {}
        self.gpus: list[dict[str, str]] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if not self.path and tag != GPU_PATH[0]:
            raise Unreadable(f"{NAME}: root element is <{tag[:40]}>, not <{GPU_PATH[0]}>")
        if len(self.path) >= DEPTH_MAXIMUM:
            raise Unreadable(f"{NAME}: elements nested deeper than {DEPTH_MAXIMUM}")
        self.path.append(tag)
        self.text = []
        if self.path == GPU_PATH:
            self.gpus.append({"pci.bus_id": attributes.get("id", "")})

    def characters(self, text: str) -> None:
        self.text.append(text)

    def end(self, tag: str) -> None:
        value = "".join(self.text).strip()
        self.text = []
        if self.path[:2] == GPU_PATH and len(self.path) > len(GPU_PATH):
            path = "/".join(self.path[2:])
            if path == "minor_number":
                self.gpus[-1]["minor_number"] = value
            elif field := PATHS.get(path):
                self.gpus[-1][field] = value
        elif len(self.path) == len(GPU_PATH) and tag != GPU_PATH[1]:
            self.header[tag] = value
        self.path.pop()


def looks_like(head: bytes, name: str) -> bool:  # noqa: ARG001  every format answers to the same question
    return "<nvidia_smi_log" in payload.head_text(head)


def decode(data: bytes, surroundings: Surroundings) -> Decoded:
    """Rows of gpu, one per <gpu>. Slots as in the text form. MIG devices are inside their GPU and make no rows of their
    own. Raises Unreadable for XML that is not well formed (with the line) or not an nvidia_smi_log.
    """
    log = _parsed(payload.text(data, surroundings, NAME))
    if not log.gpus:
        raise Unreadable(f"{NAME}: no <gpu> element")
    order = slots(log.header.get("attached_gpus"), [gpu.get("minor_number") for gpu in log.gpus])
    fields = list(dict.fromkeys(field for gpu in log.gpus for field in gpu if field != "minor_number"))
    cells = pl.DataFrame(
        {field: [gpu.get(field) for gpu in log.gpus] for field in fields}, schema=dict.fromkeys(fields, pl.String)
    ).with_columns(pl.Series("slot", order, dtype=pl.Int64))
    if "timestamp" in log.header:
        cells = cells.with_columns(pl.lit(log.header["timestamp"]).alias("timestamp"))
    rejects = [
        Reject(rule="gpu|slot", reason=f"{NAME}: GPU {gpu['pci.bus_id']} is one of a part and has no minor number")
        for gpu, slot in zip(log.gpus, order, strict=True) if slot is None
    ]  # fmt: skip
    frame, wrong = rows(cells.filter(pl.col("slot").is_not_null()), {}, surroundings)
    return Decoded(tables={"gpu": frame}, rejects=rejects_frame(rejects + wrong, "gpu"), missing=missing(frame))


def _refuse_entity(name: str, *_: object) -> None:
    raise Unreadable(f"{NAME}: declares the entity {name[:40]!r}; entities are refused")


def _parsed(text: str) -> _Log:
    log = _Log()
    parser = expat.ParserCreate(encoding="utf-8")
    parser.buffer_text = True
    parser.StartElementHandler = log.start
    parser.EndElementHandler = log.end
    parser.CharacterDataHandler = log.characters
    parser.EntityDeclHandler = _refuse_entity
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    try:
        parser.Parse(text.lstrip().encode("utf-8", errors="replace"), True)
    except expat.ExpatError as error:
        raise Unreadable(f"{NAME}: line {error.lineno}: {expat.ErrorString(error.code)}") from error
    return log
