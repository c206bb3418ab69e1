"""The most memory that this process has held, by the kernel's count of this program alone: getrusage would count what
the process was before it became this one.
"""

from pathlib import Path


def peak_mebibytes() -> int:
    """Since the process began, or the peak began anew."""
    (line,) = (one for one in Path("/proc/self/status").read_text("ascii").splitlines() if one.startswith("VmHWM:"))
    return int(line.split()[1]) // 1024


def begin_anew() -> None:
    Path("/proc/self/clear_refs").write_text("5", "ascii")  # as proc(5) has it
