"""`nvidia-smi --query-gpu=... --format=csv[,nounits]` to gpu, and its complaints about lost GPUs to gpu_event.

Traps (formats.md A2): cells repeat the unit of the heading; both spellings of N/A occur in one healthy row; the
timestamp is local time without a zone; the row of a lost GPU disappears and a complaint stands before the heading.
"""

import re

import polars as pl

from schemas.columns import UTC_MICROSECONDS
from schemas.formats import payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable, rejects_frame
from schemas.formats.gpu_readings import pci_address
from schemas.formats.nvidia_smi_cells import FIELDS, field_name, missing, rows

NAME = "nvidia-smi CSV"
VERSIONS = "--query-gpu --format=csv with and without units and header, 202 to 241 columns, old throttle names"
LEAVES = "limits, retired pages, MIG mode, reason counters in us, fan and display columns"
# GPU0000:08:00.0 | GPU 0000:0B:00.0 | GPU1: 0000:34:00.0
LOST_GPU = re.compile(
    r"Unable to determine the device handle for (?:GPU|gpu)\s*(?:(\d{1,2}):\s+)?"
    r"([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-9A-Fa-f])?)"
)
LOST = "Unable to determine the device handle"
SLOTS_MAXIMUM = 64


def looks_like(head: bytes, name: str) -> bool:  # noqa: ARG001  every format answers to the same question
    text = payload.head_text(head)
    return text.lstrip().startswith(LOST) or any(_is_heading(line) for line in text.splitlines()[:20])


def decode(data: bytes, surroundings: Surroundings) -> Decoded:
    """Rows of gpu, and gpu_event rows of kind fallen_off_bus for GPUs the driver could not open.

    Slot: the column `index`; else the rank of the PCI address among all GPUs seen, lost ones included, which is how
    the driver numbers them; else, when no GPU is lost, the order of the rows. Raises Unreadable when there is neither
    a heading with a field that this product knows nor a complaint about a GPU.
    """
    return decode_lines(payload.text(data, surroundings, NAME).splitlines(), surroundings)


def decode_lines(lines: list[str], surroundings: Surroundings, first_line: int = 1) -> Decoded:
    """As decode, for lines that stand at `first_line` of a larger file."""
    blocks: list[tuple[list[str], list[tuple[int, list[str]]]]] = []
    lost: list[tuple[int, str, re.Match[str] | None]] = []
    rejects: list[Reject] = []
    for number, line in enumerate(lines, first_line):
        raw = line.encode()
        if not line.strip():
            continue
        if LOST in line:
            lost.append((number, line.strip(), LOST_GPU.search(line)))
            # Both an event, since that is what a lost GPU looks like from here, and a reject, since the row of
            # readings that was asked for is not there.
            rejects.append(Reject(rule="gpu|lost", reason=f"line {number}: {line.strip()}", place=number, raw=raw))
        elif _is_heading(line):
            blocks.append(([cell.strip() for cell in line.split(",")], []))
        elif blocks and len(cells := line.split(",")) == len(blocks[-1][0]):
            blocks[-1][1].append((number, [cell.strip() for cell in cells]))
        else:
            what = f"{line.count(',') + 1} cells, heading has {len(blocks[-1][0])}" if blocks else "no heading yet"
            rejects.append(Reject(rule="row|cells", reason=f"line {number}: {what}", place=number, raw=raw))
    if not blocks and not lost:
        raise Unreadable(f"{NAME}: no heading with a known --query-gpu field (the option noheader leaves it out)")
    frames = []
    for heading, body in blocks:
        frame, wrong = _block(heading, body, lost, surroundings)
        frames.append(frame)
        rejects += wrong
    gpu = pl.concat(frames, how="diagonal") if frames else pl.DataFrame()
    tables = {"gpu": gpu} if gpu.height else {}
    if lost:
        tables["gpu_event"] = _events(lost, gpu, surroundings)
    return Decoded(tables=tables, rejects=rejects_frame(rejects, "gpu"), missing=missing(gpu) if frames else ())


def _is_heading(line: str) -> bool:
    return any(field_name(cell)[0] in FIELDS - {"timestamp"} for cell in line.split(","))


def _block(
    heading: list[str],
    body: list[tuple[int, list[str]]],
    lost: list[tuple[int, str, re.Match[str] | None]],
    surroundings: Surroundings,
) -> tuple[pl.DataFrame, list[Reject]]:
    fields = [field_name(cell) for cell in heading]
    known = {field: position for position, (field, _) in enumerate(fields) if field in FIELDS}
    cells = pl.DataFrame(
        {field: [row[position] for _, row in body] for field, position in known.items()},
        schema=dict.fromkeys(known, pl.String),
    )
    slots = _slots(cells, [match.group(2) for *_, match in lost if match], bool(lost))
    rejects = [
        Reject(rule="gpu|slot", reason=f"line {number}: cannot tell the slot of this row", place=number,
               raw=", ".join(row).encode())
        for (number, row), slot in zip(body, slots, strict=True) if slot is None
    ]  # fmt: skip
    cells = cells.with_columns(pl.Series("slot", slots, dtype=pl.Int64)).filter(pl.col("slot").is_not_null())
    frame, wrong = rows(cells, dict(fields), surroundings)
    return frame, rejects + wrong


def _slots(cells: pl.DataFrame, lost: list[str], anything_lost: bool) -> list[int | None]:  # noqa: FBT001  read beside its twin
    if "index" in cells.columns:
        return [int(cell) if re.fullmatch(r"\d{1,2}", cell) else None for cell in cells["index"]]
    if "pci.bus_id" in cells.columns:
        seen = [pci_address(cell) for cell in cells["pci.bus_id"]]
        order = sorted({pci for pci in [*seen, *map(pci_address, lost)] if pci})
        rank = {pci: slot for slot, pci in enumerate(order)}
        return [rank.get(pci) if pci else None for pci in seen]
    if anything_lost:
        return [None] * cells.height
    if "uuid" in cells.columns:
        order = list(dict.fromkeys(cells["uuid"]))
        return [order.index(uuid) for uuid in cells["uuid"]] if len(order) <= SLOTS_MAXIMUM else [None] * cells.height
    return [slot if slot < SLOTS_MAXIMUM else None for slot in range(cells.height)]


def _events(
    lost: list[tuple[int, str, re.Match[str] | None]], gpu: pl.DataFrame, surroundings: Surroundings
) -> pl.DataFrame:
    """The complaint has no time of its own: that of the first row beside it, else of receipt. No code, as no XID was
    logged here: the kernel log tells which.
    """
    at = gpu["time"].min() if gpu.height else surroundings.received_at
    return pl.DataFrame(
        {
            "node": [surroundings.node] * len(lost),
            "gpu": [int(match.group(1)) if match and match.group(1) else None for *_, match in lost],
            "pci": [pci_address(match.group(2)) if match else None for *_, match in lost],
            "kind": ["fallen_off_bus"] * len(lost),
            "code": [None] * len(lost),
            "recovery_action": [None] * len(lost),
            "message": [line for _, line, _ in lost],
        },
        schema_overrides={"gpu": pl.Int64, "code": pl.Int64, "recovery_action": pl.String, "pci": pl.String},
    ).select(pl.lit(at).cast(UTC_MICROSECONDS).alias("time"), pl.all())
