"""How fabric sources call a device and a port, brought to the names that the topology uses (formats.md, trap 7).

A switch is its description without the firmware's decoration, an HCA is "host/hca3"; where a source knows only a GUID,
it is 0x and 16 lower-case hex digits, since the same GUID is written with and without leading zeros.
"""

import re

from schemas.formats.ibnetdiscover_names import Device, given_number, names_of

_GUID = re.compile(r"(?:0x)?([0-9a-f]{1,16})", re.IGNORECASE)
_GUID_INSIDE = re.compile(r"(?:^|[^0-9a-z])0x([0-9a-f]{8,16})(?![0-9a-z])", re.IGNORECASE)
_HCA_INSIDE = re.compile(r"(?P<host>.+?)[_/:.-](?:mlx\d_|hca|ib)(?P<number>\d{1,3})(?![0-9A-Za-z])")
_PORT_INSIDE = re.compile(r"(?:[^0-9A-Za-z]port[_-]?|:)(\d{1,4})(?![0-9A-Za-z])")
_RDMA_INTERFACE = re.compile(r"(?:ib|mlx\d_|hca)(\d{1,3})")
_NUMBERED_INTERFACE = re.compile(r"[A-Za-z][A-Za-z-]*?-?(\d{1,4}(?:/\d{1,4}){0,3})")
_INTERFACE_INSIDE = re.compile(
    r"(?P<host>.+?)[_:](?P<interface>(?:Ethernet|swp|sfp|enp|ens|eno|eth|et-|xe-)[\w/.-]{1,32})"
)
PORT_MAXIMUM = 4096


def guid(text: str) -> str | None:
    """`2c903006e29b0`, `0x2c903006e29b0`, `0x0002C903006E29B0` are one: `0x0002c903006e29b0`. None: no GUID."""
    found = _GUID.fullmatch(text.strip())
    return None if found is None else f"0x{int(found.group(1), 16):016x}"


def device_of(description: str, guid_text: str, *, switch: bool) -> str:
    """The topology's name of a device that a source describes; its GUID where the description gives an HCA no number,
    since a number by order needs all HCAs of the host.
    """
    plain = description.strip()
    known = guid(guid_text)
    if not plain or (not switch and given_number(plain) is None):
        return known or plain or "unknown"
    device = Device("S" if switch else "H", (known or "0x0")[2:].lstrip("0"), plain[:64])
    return names_of({"": device})[""][:256]


def place_of(node: str) -> tuple[str, int | None]:
    """Device and port from what a payload came with, a file's name or a message's key: `perfquery_0x506b4b03005c2740`,
    `n00012_mlx5_3`, `n00012/hca3:1`, `leaf-017_port33`. What names neither GUID nor HCA is taken whole.
    """
    named = _INTERFACE_INSIDE.fullmatch(node)
    if named and (place := interface_of(named["host"], named["interface"])):
        return place
    port = _PORT_INSIDE.search(node)
    number = int(port.group(1)) if port and int(port.group(1)) <= PORT_MAXIMUM else None
    inside = _GUID_INSIDE.search(node.replace("_", " "))
    if inside:
        return f"0x{int(inside.group(1), 16):016x}", number
    bare = node[: port.start()] if port and number is not None else node
    hca = _HCA_INSIDE.match(bare)
    if hca:
        return f"{hca['host'].rstrip('_-/. ') or 'unknown'}/hca{int(hca['number'])}"[:256], number
    return bare.strip()[:256] or "unknown", number


def interface_of(node: str, interface: str) -> tuple[str, int] | None:
    """Device and port of a network interface. An RDMA one (ib6, mlx5_3) is an HCA with one port; any other of a host
    (enp134s0f0) is a device of its own, until a mapping says which HCA it is; a switch's (Ethernet48, et-0/0/5) is
    the switch's port of that number, with slots other than 0 and 1 in the device (x-2.0 port 15). None: no interface.
    """
    rdma = _RDMA_INTERFACE.fullmatch(interface)
    if rdma:
        return f"{node}/hca{int(rdma.group(1))}"[:256], 1
    numbered = _NUMBERED_INTERFACE.fullmatch(interface)
    if numbered and not re.fullmatch(r"(?:eth|en|eno|ens|wlan)\d+", interface):
        *slots, port = numbered.group(1).split("/")
        if int(port) > PORT_MAXIMUM:
            return None
        plain = all(int(slot) == 0 for slot in slots) or [int(slot) for slot in slots] == [1]
        return (node if plain else f"{node}-{'.'.join(slots)}")[:256], int(port)
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]{0,31}", interface):
        return f"{node}/{interface}"[:256], 1
    return None
