"""What must outlast a power cut."""

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Force the names in a folder to the disk: a file that was made or renamed there is only then sure to be found."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
