"""The stamps that kernel logs write, and what they mean in UTC."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Literal, NamedTuple

from schemas.formats.decoded import Surroundings

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH = "|".join(MONTHS)
_CLOCK = r"(\d\d):(\d\d):(\d\d)"

# [Sun Feb 23 16:24:18 2025]
DMESG = re.compile(rf"\[\s*[A-Z][a-z]{{2}} ({_MONTH})\s+(\d{{1,2}}) {_CLOCK} (\d{{4}})\]")
# [111111.111], with or without <4> before it
BOOT = re.compile(r"(?:<\d+>)?\[\s*(\d{1,12}\.\d{1,9})\]")
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
    moment: of a plain ISO stamp, in place of parts and zone; without a zone it is local.
    """

    style: Literal["dmesg", "boot", "kmsg", "syslog", "iso", "none"]
    parts: tuple[int | None, int, int, int, int, int, int] | None = None
    zone_minutes: int | None = None
    seconds: float | None = None
    host: str | None = None
    moment: datetime | None = None

    def time(self, surroundings: Surroundings, boot: datetime) -> datetime:
        """In UTC. An impossible date counts as no stamp: the line's event is worth more than its time."""
        if self.seconds is not None:
            return boot + timedelta(seconds=self.seconds)
        if self.moment is not None:
            return _zoned(self.moment, surroundings)
        if self.parts is None:
            return surroundings.received_at
        zone = surroundings.utc_offset_minutes if self.zone_minutes is None else self.zone_minutes
        year, rest = self.parts[0], self.parts[1:]
        if year is not None:
            return _in_utc(year, rest, zone) or surroundings.received_at
        return _of_some_year(rest, zone, surroundings.received_at)


@lru_cache(maxsize=1024)
def _of_some_year(rest: tuple[int, int, int, int, int, int], zone_minutes: int, received_at: datetime) -> datetime:
    """In the last year that puts it no later than a day after received_at. Lines of a storm share their second."""
    latest = received_at + timedelta(days=1)
    for back in range(5):  # five years back reach a 29 February
        time = _in_utc(latest.year - back, rest, zone_minutes)
        if time is not None and time <= latest:
            return time
    return received_at


def _in_utc(year: int, rest: tuple[int, int, int, int, int, int], zone_minutes: int) -> datetime | None:
    """None for what is in no calendar."""
    try:
        month, day, hour, minute, second, microsecond = rest
        local = datetime(year, month, day, hour, minute, second, microsecond, tzinfo=UTC)
        return local - timedelta(minutes=zone_minutes) if zone_minutes else local
    except (ValueError, OverflowError):
        return None


def read_stamp(head: str) -> Stamp:
    """The stamp at the beginning of a line."""
    head = head.lstrip()
    plain = _plain_iso(head) if head[4:5] == "-" else _plain_syslog(head)  # as logs are mostly written
    if plain is not None:
        return plain
    if match := BOOT.match(head):
        return Stamp("boot", None, None, float(match[1]))
    if match := DMESG.match(head):
        month, day, hour, minute, second, year = match.groups()
        return Stamp("dmesg", (int(year), MONTHS.index(month) + 1, int(day), int(hour), int(minute), int(second), 0))
    if match := KMSG.match(head):
        return Stamp("kmsg", seconds=int(match.group(1)) / 1e6)
    if match := SYSLOG.match(head):
        return _syslog(match)
    iso = ISO.match(head)
    return Stamp("none") if iso is None else _iso(iso)


def _plain_syslog(head: str) -> Stamp | None:
    """`Aug 17 06:18:01 host kernel:` as it stands; None for all that is written in another way."""
    if head[15:16] != " " or not head[:1].isalpha():
        return None
    told = _second_of_syslog(head[:15])
    if told is None:
        return None
    host, _, _ = head[16:].lstrip().partition(" ")
    return Stamp("syslog", told.parts, None, None, _host(host)) if host else told


@lru_cache(maxsize=1024)
def _second_of_syslog(text: str) -> Stamp | None:
    """Lines of a storm share their second."""
    found = SYSLOG.fullmatch(text)
    return None if found is None else _syslog(found)


def _plain_iso(head: str) -> Stamp | None:
    """`2025-02-23T16:24:18.123456+0000 host kernel:` as it stands; None for all that is written in another way."""
    word, _, rest = head.partition(" ")
    if word[10:11] != "T" or not word[5:7].isdigit():
        return None
    try:
        moment = datetime.fromisoformat(word)
    except ValueError:
        return None
    host, _, _ = rest.lstrip().partition(" ")
    return Stamp("iso", None, None, None, _host(host or None), moment)


def _zoned(moment: datetime, surroundings: Surroundings) -> datetime:
    try:
        if moment.tzinfo is None:
            return moment.replace(tzinfo=UTC) - timedelta(minutes=surroundings.utc_offset_minutes)
        return moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    except OverflowError:
        return surroundings.received_at


def _syslog(match: re.Match[str]) -> Stamp:
    month, day, hour, minute, second, fraction, host = match.groups()
    parts = (None, MONTHS.index(month) + 1, int(day), int(hour), int(minute), int(second), _micros(fraction))
    return Stamp("syslog", parts, None, None, _host(host))


def _iso(match: re.Match[str]) -> Stamp:
    year, month, day, hour, minute, second, fraction, zone, host = match.groups()
    parts = (int(year), int(month), int(day), int(hour), int(minute), int(second), _micros(fraction))
    return Stamp("iso", parts, _zone(zone), host=_host(host))


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
    return int(fraction.lstrip(".")[:6].ljust(6, "0")) if fraction else 0


def _zone(zone: str | None) -> int | None:
    if zone is None or zone == "Z":
        return None if zone is None else 0
    if zone == "+0000":
        return 0
    sign = -1 if zone[0] == "-" else 1
    return sign * (int(zone[1:3]) * 60 + int(zone[-2:]))


def _host(word: str | None) -> str | None:
    """`kernel:` stands where the host would when there is none."""
    return None if word is None or word.endswith(":") or word.startswith("[") else word[:256]
