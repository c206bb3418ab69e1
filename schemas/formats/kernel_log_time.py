"""The stamps that kernel logs write, and what they mean in UTC."""

import re
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

from schemas.formats.decoded import Surroundings

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH = "|".join(MONTHS)
_CLOCK = r"(\d\d):(\d\d):(\d\d)"

# [Sun Feb 23 16:24:18 2025]
DMESG = re.compile(rf"\[\s*[A-Z][a-z]{{2}} ({_MONTH})\s+(\d{{1,2}}) {_CLOCK} (\d{{4}})\]")
# [111111.111], with or without <4> before it
BOOT = re.compile(r"(?:<\d+>)?\[\s*(\d{1,12})\.(\d{1,9})\]")
# 6,3964,206764307,-;
KMSG = re.compile(r"\d{1,6},\d{1,20},(\d{1,18}),[^;]*;")
# Aug 17 06:18:01 host kernel:
SYSLOG = re.compile(rf"(?:<\d+>)?({_MONTH})\s+(\d{{1,2}}) {_CLOCK}(\.\d{{1,9}})?(?:\s+(\S+))?")
# 2025-02-23T16:24:18.123456+0000 host kernel:
ISO = re.compile(
    rf"(?:<\d+>\d? ?)?(\d{{4}})-(\d\d)-(\d\d)[T ]{_CLOCK}(?:[.,](\d{{1,9}}))?\s*(Z|[+-]\d\d:?\d\d)?(?:\s+(\S+))?"
)
_LAST_BOOT_STAMP = re.compile(rb"^(?:<\d+>)?\[\s*(\d{1,12}\.\d{1,9})\]|^\d{1,6},\d{1,20},(\d{1,18}),[^;\n]*;")
LINES_LOOKED_BACK_MAXIMUM = 1000


class Stamp(NamedTuple):
    """What stands before the message. parts: year or None, month, day, hour, minute, second, microsecond, as written.
    zone_minutes: None when the stamp says no zone. seconds: since boot. host: when the line names one.
    """

    style: Literal["dmesg", "boot", "kmsg", "syslog", "iso", "none"]
    parts: tuple[int | None, int, int, int, int, int, int] | None = None
    zone_minutes: int | None = None
    seconds: float | None = None
    host: str | None = None

    def time(self, surroundings: Surroundings, boot: datetime) -> datetime:
        """In UTC. An impossible date counts as no stamp: the line's event is worth more than its time."""
        if self.seconds is not None:
            return boot + timedelta(seconds=self.seconds)
        if self.parts is None:
            return surroundings.received_at
        zone = surroundings.utc_offset_minutes if self.zone_minutes is None else self.zone_minutes
        year, month, day, hour, minute, second, microsecond = self.parts
        latest = surroundings.received_at + timedelta(days=1)
        years = (year,) if year is not None else tuple(latest.year - back for back in range(5))
        for candidate in years:  # five years back reach a 29 February
            try:
                local = datetime(candidate, month, day, hour, minute, second, microsecond, tzinfo=UTC)
                time = local - timedelta(minutes=zone)
            except (ValueError, OverflowError):
                continue
            if year is not None or time <= latest:
                return time
        return surroundings.received_at


def read_stamp(head: str) -> Stamp:
    """The stamp at the beginning of a line."""
    head = head.lstrip()
    if match := DMESG.match(head):
        month, day, hour, minute, second, year = match.groups()
        return Stamp("dmesg", (int(year), MONTHS.index(month) + 1, int(day), int(hour), int(minute), int(second), 0))
    if match := BOOT.match(head):
        return Stamp("boot", seconds=float(f"{match.group(1)}.{match.group(2)}"))
    if match := KMSG.match(head):
        return Stamp("kmsg", seconds=int(match.group(1)) / 1e6)
    if match := SYSLOG.match(head):
        month, day, hour, minute, second, fraction, host = match.groups()
        parts = (None, MONTHS.index(month) + 1, int(day), int(hour), int(minute), int(second), _micros(fraction))
        return Stamp("syslog", parts, host=_host(host))
    if match := ISO.match(head):
        *date, fraction, zone, host = match.groups()
        year, month_number, day_number, hours, minutes, seconds = map(int, date)
        parts_iso = (year, month_number, day_number, hours, minutes, seconds, _micros(fraction))
        return Stamp("iso", parts_iso, _zone(zone), host=_host(host))
    return Stamp("none")


def seconds_since_boot(lines: list[bytes]) -> float | None:
    """The last stamp since boot in a log; None for logs with other stamps."""
    for line in reversed(lines[-LINES_LOOKED_BACK_MAXIMUM:]):
        if match := _LAST_BOOT_STAMP.match(line):
            return float(match.group(1)) if match.group(1) else int(match.group(2)) / 1e6
    return None


def boot_moments(stamps: list[float | None], last: float | None, received_at: datetime) -> list[datetime]:
    """Zero point of each stamp since boot. Where stamps fall, the machine was booted in between: the lines before are
    taken as written just before the boot that follows, the latest they can have been.
    """
    known = [seconds for seconds in stamps if seconds is not None]
    following = last if last is not None else (known[-1] if known else 0.0)
    boot = _back(received_at, following)
    moments = []
    for seconds in reversed(stamps):
        if seconds is not None:
            if seconds > following:
                boot = _back(boot, seconds)
            following = seconds
        moments.append(boot)
    return moments[::-1]


def _back(moment: datetime, seconds: float) -> datetime:
    try:
        return moment - timedelta(seconds=seconds)
    except OverflowError:
        return datetime(1970, 1, 1, tzinfo=UTC)


def _micros(fraction: str | None) -> int:
    return int((fraction or "0").lstrip(".")[:6].ljust(6, "0"))


def _zone(zone: str | None) -> int | None:
    if zone is None or zone == "Z":
        return None if zone is None else 0
    sign = -1 if zone[0] == "-" else 1
    return sign * (int(zone[1:3]) * 60 + int(zone[-2:]))


def _host(word: str | None) -> str | None:
    """`kernel:` stands where the host would when there is none."""
    return None if word is None or word.endswith(":") or word.startswith("[") else word[:256]
