"""What lies in the drop folder: recordings and files, each with a mark that changes whenever it is written to."""

from hashlib import blake2s
from pathlib import Path

RECORDING = "recording.toml"


def entries(folder: Path) -> dict[str, str]:
    """Absolute path -> mark, in order of name. A folder counts as one entry when it is a recording; others are left
    alone, and so is what begins with a dot. Reads no content.
    """
    if not folder.is_dir():
        return {}
    found: dict[str, str] = {}
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith("."):
            continue
        if entry.is_file():
            found[str(entry.absolute())] = _mark([entry])
        elif entry.is_dir() and ((entry / RECORDING).is_file() or any(entry.glob("*.parquet"))):
            found[str(entry.absolute())] = _mark(sorted(path for path in entry.rglob("*") if path.is_file()))
    return found


def _mark(paths: list[Path]) -> str:
    """Names, sizes and times of writing."""
    digest = blake2s(digest_size=8)
    for path in paths:
        try:
            stat = path.stat()
        except FileNotFoundError:
            continue  # moved away while we looked: the mark differs, and that is all it is for
        digest.update(f"{path}\x1f{stat.st_size}\x1f{stat.st_mtime_ns}\x1e".encode())
    return digest.hexdigest()
