"""OTDR files for `hotspare cable`: folders opened, shots read, the baseline of each found."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from detectors.fiber.shot import Shot, shot_of
from pipelines.sources.contract import SourceError
from pipelines.sources.files import decode_file, surroundings_of
from pipelines.topics import FORMATS
from schemas.admission import admit
from schemas.formats import sor
from schemas.tables import TABLE_BY_NAME

SOR = next(form for form in FORMATS if form.name == sor.NAME)
SUFFIXES = (".sor", ".sor.gz", ".sor.zst")
NO_CABLE = "unknown"  # what the decoder calls a cable whose file does not name it
LASER_SPREAD_NANOMETERS = 20.0  # real lasers are within 10 nm of nominal (formats.md, C)


@dataclass(frozen=True, eq=False)
class ShotFile:
    """One file and its shot, admitted."""

    path: Path
    shot: Shot


@dataclass(frozen=True)
class Unread:
    file: str
    reason: str


def files_in(paths: Iterable[Path]) -> tuple[list[Path], list[Unread]]:
    """The files themselves, and every .sor file below the folders, in order of name; each once."""
    found: dict[Path, Path] = {}
    empty = []
    for path in paths:
        inside = [path]
        if path.is_dir():
            inside = sorted(each for each in path.rglob("*") if each.name.lower().endswith(SUFFIXES) and each.is_file())
            if not inside:
                empty.append(Unread(str(path), "no .sor file in this folder"))
        for each in inside:
            found.setdefault(each.resolve(), each)
    return list(found.values()), empty


def read_all(paths: Iterable[Path], bytes_maximum: int) -> tuple[list[ShotFile], list[Unread]]:
    """Shots, and the files that cannot be read with the reason; one does not hide the others."""
    files, unread = files_in(paths)
    shots = []
    for path in files:
        try:
            shots.append(ShotFile(path, read(path, bytes_maximum)))
        except SourceError as error:
            unread.append(Unread(str(path), str(error).removeprefix(f"{path}: ")))
    return shots, unread


def read(path: Path, bytes_maximum: int) -> Shot:
    """Raises SourceError naming the file."""
    form = SOR if path.name.lower().endswith(SUFFIXES) else None
    decoded = decode_file(path, surroundings_of(path, node=None), bytes_maximum, form)
    if "otdr_trace" not in decoded.tables:
        raise SourceError(f"{path}: not an OTDR trace")
    rows = {name: admit(TABLE_BY_NAME[name], frame) for name, frame in decoded.tables.items()}
    refused = sorted({rule for part in rows.values() for rule in part.quarantined["rule"]})
    if rows["otdr_trace"].rows.is_empty():
        raise SourceError(f"{path}: its values are out of range ({', '.join(refused)})")
    none = pl.DataFrame(schema=TABLE_BY_NAME["otdr_event"].columns)
    events = rows["otdr_event"].rows if "otdr_event" in rows else none
    return shot_of(rows["otdr_trace"].rows.row(0, named=True), events)


def baseline_of(shot: Shot, baselines: Sequence[ShotFile]) -> tuple[ShotFile | None, str]:
    """The baseline to compare with and a warning, or None and why not.

    One baseline is taken at its word unless what both files say of cable, fibre or wavelength disagrees; of several
    the newest of the same cable, fibre and wavelength is taken.
    """
    fitting = [each for each in baselines if not _disagreement(shot, each.shot)]
    if not fitting:
        if len(baselines) == 1:
            return None, f"{baselines[0].path} is of another fibre: {_disagreement(shot, baselines[0].shot)}"
        return None, f"no baseline for cable {shot.cable}, fibre {shot.fiber} at {shot.wavelength_nanometers:g} nm"
    dated = [each for each in fitting if each.shot.time is not None]
    chosen = max(dated, key=lambda each: each.shot.time or 0) if dated else fitting[-1]
    warnings = []
    if NO_CABLE in {shot.cable, chosen.shot.cable}:
        warnings.append("a file without a cable id: whether it is the same cable cannot be checked")
    if shot.pulse_nanoseconds != chosen.shot.pulse_nanoseconds:
        warnings.append(
            f"pulses of {chosen.shot.pulse_nanoseconds:g} and {shot.pulse_nanoseconds:g} ns: losses repeat less well"
        )
    return chosen, "; ".join(warnings)


def _disagreement(shot: Shot, other: Shot) -> str:
    """What the two files say differently of which fibre they show, in words; empty where nothing."""
    said = []
    if shot.cable != other.cable and NO_CABLE not in {shot.cable, other.cable}:
        said.append(f"cable {other.cable}, not {shot.cable}")
    if shot.fiber != other.fiber:
        said.append(f"fibre {other.fiber}, not {shot.fiber}")
    ours, theirs = shot.wavelength_nanometers, other.wavelength_nanometers
    if ours is not None and theirs is not None and abs(ours - theirs) > LASER_SPREAD_NANOMETERS:
        said.append(f"{theirs:g} nm, not {ours:g} nm")
    return ", ".join(said)
