"""From node descriptions of a fabric to our names: switches, and HCAs numbered within their host."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

# Descriptions that firmware gives while the host has not set its own: they name a chip, not a host.
_NAMELESS = re.compile(r"MT\d+|Mellanox|ConnectX|NVIDIA|mlx\d+_\d+$|localhost\b|$", re.IGNORECASE)
_NUMBERED = re.compile(r"(?:HCA-(?P<from_one>\d+)|mlx\d+_(?P<from_zero>\d+)|hca(?P<own>\d+))$")


@dataclass(frozen=True)
class Device:
    """kind: S switch, H host adapter, R router. guid: lower case without leading zeros. ports: where a line says."""

    kind: str
    guid: str
    description: str
    ports: int | None = None


def is_aggregation_node(device: Device) -> bool:
    """In-network reduction engines of switches answer as host adapters."""
    return device.kind == "H" and "aggregation node" in device.description.lower()


def names_of(devices: Mapping[str, Device]) -> dict[str, str]:
    """Key -> name: a switch by its description, an HCA as host/hca3. Two of one name are told apart by their GUIDs."""
    names: dict[str, str] = {}
    hosts: dict[str, list[str]] = {}
    for key, device in devices.items():
        if device.kind == "H":
            hosts.setdefault(_host(device), []).append(key)
        else:
            names[key] = _switch(device)
    counts: dict[str, int] = {}
    for name in (*names.values(), *hosts):
        counts[name] = counts.get(name, 0) + 1
    for key, name in names.items():
        if counts[name] > 1:
            names[key] = f"{name}-{devices[key].guid}"
    for host, keys in hosts.items():
        names |= {key: f"{host}/hca{number}" for key, number in _numbered(keys, devices).items()}
    return names


def _host(device: Device) -> str:
    if _NAMELESS.match(device.description):
        return f"ca-{device.guid}"
    return _slashless(device.description.split()[0].strip("'\""))


def _switch(device: Device) -> str:
    """One chip: "MF0;rack7:MQM8700/U1" is rack7; of several: "MF0;dirA:MCS8500/L16/U2" is dirA.L16.U2."""
    plain = device.description.partition(";")[2] or device.description
    system, colon, chip = plain.partition(":")
    _, slash, inside = chip.partition("/")
    if colon and slash:
        plain = system if inside == "U1" else f"{system}.{inside}"
    if not plain.strip() or _NAMELESS.match(plain):
        return f"switch-{device.guid}"
    return _slashless("-".join(plain.split()))


def _slashless(name: str) -> str:
    """A slash parts a host from its HCA, so no name may have one."""
    return name.replace("/", ".")


def _numbered(keys: list[str], devices: Mapping[str, Device]) -> dict[str, int]:
    """By the number that descriptions give when all do and differ, else by natural order of the descriptions."""
    given = {key: given_number(devices[key].description) for key in keys}
    numbers = {key: number for key, number in given.items() if number is not None}
    if len(numbers) == len(keys) == len(set(numbers.values())):
        return numbers
    in_order = sorted(keys, key=lambda key: (_natural(devices[key].description), devices[key].guid))
    return {key: number for number, key in enumerate(in_order)}


def given_number(description: str) -> int | None:
    """The HCA's number, from 0, that its description ends in; None where it says none."""
    found = _NUMBERED.search(description)
    if found is None or found["from_one"] == "0":
        return None
    return int(found["from_one"]) - 1 if found["from_one"] else int(found["from_zero"] or found["own"])


def _natural(text: str) -> tuple[tuple[int, str], ...]:
    """ibp11 before ibp100: digits by value."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", text))
