"""SR-4731 .sor files, format versions 1 and 2, to otdr_trace and otdr_event.

Blocks come in any order and their sizes stand only in the map; vendors' blocks are skipped by size. Distances are
c * t / n with one-way times: the file's times are already halved (domain.md 4.5: halving again would double the
attenuation of the sample files). The checksum is advisory: 103 of 106 files in the field fail the reference one.
"""

import binascii
import struct
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import polars as pl

from schemas.formats import payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable, rejects_frame
from schemas.formats.sor_blocks import Block, Cursor, read_map

NAME = "SOR"
VERSIONS = "SR-4731 (Bellcore) versions 1 and 2, blocks in any order, advisory checksum"
LEAVES = "vendor blocks, which are skipped by size; operator, comment and landmark texts; marker positions of events"
SPEED_OF_LIGHT_METERS_PER_SECOND = 299_792_458.0
EVENT_TIME_SECONDS = 1e-10
SPACING_TIME_SECONDS = 1e-14
WAVELENGTH_TENTHS_MINIMUM = 4000
END_CODES = ("E", "D")  # end of the fibre as found, or as the user moved it


@dataclass(frozen=True, kw_only=True)
class SorEvent:
    """number: in the file. travel: 0.1 ns, one way, signed. code: e.g. 1F9999LS. reflectance_db 0.0: not reflective."""

    number: int
    travel: int
    slope_db_per_km: float
    loss_db: float
    reflectance_db: float
    code: str
    comment: str = ""


@dataclass(frozen=True, kw_only=True)
class SorSummary:
    """Loss and return loss of the span, in dB, each with the distances (0.1 ns) between which it was taken."""

    total_loss_db: float
    loss_start: int
    loss_end: int
    return_loss_db: float
    return_loss_start: int
    return_loss_end: int


@dataclass(frozen=True, kw_only=True)
class SorFile:
    """What the file says, in its own units where the name carries none.

    format_version: 1 or 2. version: of the map, 100 = 1.00. blocks: names in the order of the map. wavelength_tenths:
    as stored; Noyes stores nm. spacing: 1e-14 s between samples. samples: raw, 0.001 dB downwards, to be scaled.
    acquisition_offset, user_offset: 0.1 ns. range_meters: samples * spacing. checksum_matches: None without a Cksum.
    """

    format_version: int
    version: int
    blocks: tuple[str, ...]
    cable: str
    fiber: str
    location_a: str
    location_b: str
    nominal_wavelength_nanometers: int
    user_offset: int
    supplier: str
    module: str
    taken_at: datetime
    wavelength_tenths: int
    acquisition_offset: int
    pulse_nanoseconds: int
    spacing: int
    points: int
    group_index: float
    events: tuple[SorEvent, ...]
    summary: SorSummary | None
    samples: tuple[int, ...]
    scale: float
    checksum_matches: bool | None

    @property
    def wavelength_nanometers(self) -> float:
        """Actual wavelength. No OTDR works below 400 nm, so a smaller value was stored in nm."""
        in_tenths = self.wavelength_tenths >= WAVELENGTH_TENTHS_MINIMUM
        return self.wavelength_tenths / 10 if in_tenths else float(self.wavelength_tenths)

    @property
    def sample_spacing_meters(self) -> float:
        return self.spacing * SPACING_TIME_SECONDS * SPEED_OF_LIGHT_METERS_PER_SECOND / self.group_index

    @property
    def range_meters(self) -> float:
        return self.points * self.sample_spacing_meters

    @property
    def first_sample_meters(self) -> float:
        """From the user offset, as the events are. Both offsets count from the front panel."""
        return self.meters(self.acquisition_offset - self.user_offset)

    def meters(self, travel: int) -> float:
        """Distance of a time of travel in 0.1 ns."""
        return travel * EVENT_TIME_SECONDS * SPEED_OF_LIGHT_METERS_PER_SECOND / self.group_index


def looks_like(head: bytes, name: str) -> bool:
    return head.startswith(b"Map\0") or (name.lower().endswith(".sor") and b"GenParams\0" in head[:64])


def read(data: bytes, surroundings: Surroundings) -> SorFile:
    """The file's content. Raises Unreadable naming the block that is missing, cut short or contradicts itself."""
    payload.bounded(data, surroundings, NAME)
    map_version, version, blocks = read_map(data)
    general = _general(_block(blocks, "GenParams"), map_version)
    supplier = _block(blocks, "SupParams")
    strings = [supplier.string() for _ in range(4)]
    fixed = _fixed(_block(blocks, "FxdParams"), map_version)
    events, summary = _key_events(_block(blocks, "KeyEvents"), map_version)
    samples, scale = _samples(_block(blocks, "DataPts"))
    return SorFile(
        format_version=map_version, version=version, blocks=tuple(block.name for block in blocks),
        supplier=strings[0], module=strings[3], events=events, summary=summary, samples=samples, scale=scale,
        checksum_matches=_checksum(data, blocks), **general, **fixed,
    )  # fmt: skip


def decode(
    data: bytes, surroundings: Surroundings, *, cable: str | None = None, direction: str | None = None
) -> Decoded:
    """One otdr_trace row and its otdr_event rows.

    cable, direction: from the message's headers or the command line; the file's own cable id is the second choice, as
    operators seldom fill it in. Reflectance 0.000 and return loss 0.000 mean "none measured" and become null; losses
    below zero (gainers) stay. length_meters: distance of the (first) event marked as end; null when the span runs
    out of range. samples_db: level relative to the first sample, falling with distance.
    """
    sor = read(data, surroundings)
    rejects: list[Reject] = []
    if sor.points != len(sor.samples):
        reason = f"FxdParams says {sor.points} points, DataPts holds {len(sor.samples)}; the latter are taken"
        rejects.append(Reject(rule="otdr_trace|points", reason=reason, raw=b""))
    key = {
        "time": sor.taken_at,
        "cable": cable or sor.cable or "unknown",
        "fiber": sor.fiber or "1",
        "direction": direction,
    }
    ends = [sor.meters(event.travel) for event in sor.events if event.code[1:2] in END_CODES]
    levels = pl.Series(sor.samples, dtype=pl.Float64)
    trace = pl.DataFrame([key]).with_columns(
        wavelength_nanometers=pl.lit(_nominal(sor)),
        pulse_nanoseconds=pl.lit(float(sor.pulse_nanoseconds)),
        group_index=pl.lit(sor.group_index),
        length_meters=pl.lit(min(ends, default=None), pl.Float64),
        total_loss_db=pl.lit(_total_loss(sor.summary), pl.Float64),
        return_loss_db=pl.lit((sor.summary.return_loss_db or None) if sor.summary else None, pl.Float64),
        first_sample_meters=pl.lit(sor.first_sample_meters),
        sample_spacing_meters=pl.lit(sor.sample_spacing_meters),
        samples_db=pl.lit(pl.Series([(levels[0] - levels) * sor.scale / 1000]) if len(levels) else None),
    )
    tables = {
        "otdr_trace": trace.with_columns(
            pl.col("time").dt.replace_time_zone("UTC"), pl.col("direction").cast(pl.String)
        )
    }
    if sor.events:
        tables["otdr_event"] = _event_frame(sor, key)
    return Decoded(tables=tables, rejects=rejects_frame(rejects, "otdr_trace"), missing=("baseline",))


def _nominal(sor: SorFile) -> float:
    nominal = float(sor.nominal_wavelength_nanometers)
    return nominal or sor.wavelength_nanometers


def _total_loss(summary: SorSummary | None) -> float | None:
    """An instrument that did not evaluate the span writes zero for both numbers."""
    if summary is None or (summary.total_loss_db == 0 and summary.return_loss_db == 0):
        return None
    return summary.total_loss_db


def _event_frame(sor: SorFile, key: dict[str, object]) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {
                **key,
                "number": event.number,
                "distance_meters": sor.meters(event.travel),
                "loss_db": event.loss_db,
                "reflectance_db": event.reflectance_db or None,
                "code": event.code,
            }
            for event in sor.events
        ],
        schema_overrides={"reflectance_db": pl.Float64, "direction": pl.String, "number": pl.Int64},
        infer_schema_length=None,
    ).with_columns(pl.col("time").dt.replace_time_zone("UTC"))


def _block(blocks: tuple[Block, ...], name: str) -> Cursor:
    for block in blocks:
        if block.name == name:
            return block.cursor()
    raise Unreadable(f"{NAME}: no block {name}")


def _general(block: Cursor, map_version: int) -> dict[str, Any]:
    block.skip(2)  # language
    cable, fiber = block.string(), block.string()
    if map_version >= 2:
        block.skip(2)  # kind of fibre
    wavelength = block.number("H")
    location_a, location_b = block.string(), block.string()
    block.string()  # code of the cable
    block.skip(2)  # condition as built, as current, as repaired
    return {
        "cable": cable, "fiber": fiber, "location_a": location_a, "location_b": location_b,
        "nominal_wavelength_nanometers": wavelength, "user_offset": block.number("i"),
    }  # fmt: skip


def _fixed(block: Cursor, map_version: int) -> dict[str, Any]:
    taken_at = datetime.fromtimestamp(block.number("I"), UTC)
    block.skip(2)  # unit of display
    wavelength, offset = block.number("H"), block.number("i")
    if map_version >= 2:
        block.skip(4)  # offset as a distance
    pulses = block.number("H")
    if pulses == 0:
        raise Unreadable(f"{NAME}: block FxdParams has no pulse width")
    widths = [block.number("H") for _ in range(pulses)]
    spacings = [block.number("I") for _ in range(pulses)]
    points = [block.number("I") for _ in range(pulses)]
    index = block.number("I") / 100_000
    if not 1 <= index <= 2:
        raise Unreadable(f"{NAME}: block FxdParams has group index {index}, not between 1 and 2")
    return {
        "taken_at": taken_at, "wavelength_tenths": wavelength, "acquisition_offset": offset,
        "pulse_nanoseconds": widths[0], "spacing": spacings[0], "points": points[0], "group_index": index,
    }  # fmt: skip


def _key_events(block: Cursor, map_version: int) -> tuple[tuple[SorEvent, ...], SorSummary | None]:
    events = []
    for _ in range(block.number("H")):
        number, travel = block.number("H"), block.number("i")
        slope, loss, reflectance = block.number("h"), block.number("h"), block.number("i")
        code = block.characters(8)
        if map_version >= 2:
            block.skip(20)  # five markers of the operator
        events.append(
            SorEvent(
                number=number, travel=travel, slope_db_per_km=slope / 1000, loss_db=loss / 1000,
                reflectance_db=reflectance / 1000, code=code, comment=block.string(),
            )
        )  # fmt: skip
    if block.left == 0:
        return tuple(events), None
    total, start, end = block.number("i"), block.number("i"), block.number("i")
    orl, orl_start, orl_end = block.number("H"), block.number("i"), block.number("i")
    return tuple(events), SorSummary(
        total_loss_db=total / 1000, loss_start=start, loss_end=end,
        return_loss_db=orl / 1000, return_loss_start=orl_start, return_loss_end=orl_end,
    )  # fmt: skip


def _samples(block: Cursor) -> tuple[tuple[int, ...], float]:
    """Of the first trace; more than one pulse width in a file has not been seen."""
    block.number("I")
    if block.number("H") == 0:
        return (), 1.0
    points, scale = block.number("I"), block.number("H") / 1000
    return struct.unpack(f"<{points}H", block.take(2 * points)), scale


def _checksum(data: bytes, blocks: tuple[Block, ...]) -> bool | None:
    for block in blocks:
        if block.name == "Cksum":
            stored = block.cursor()
            if stored.left < 2:
                return None
            return stored.number("H") == binascii.crc_hqx(data[: block.end - 2], 0xFFFF)
    return None
