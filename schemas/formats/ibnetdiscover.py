"""What ``ibnetdiscover`` prints, whole or as a port list (-p), as a topology.

The same cable is seen from both ends and given once. Switches and routers are named by their description without the
firmware's decoration ("MF0;dirA:MCS8500/L16/U2" becomes dirA.L16.U2), hosts by the first word of theirs; an HCA's
number is that of "HCA-2" (counts from 1) or "mlx5_1", else its place among its host's names. What no line says stays
null: pods, PDUs and CDUs. The in-network aggregation nodes of switches are no hosts and are left out.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import polars as pl

from schemas.formats.decoded import Reject, Surroundings, Unreadable, rejects_frame
from schemas.formats.ibnetdiscover_names import Device, is_aggregation_node, names_of
from schemas.topology import ALIAS_COLUMNS, LINK_COLUMNS, Topology, node_of, topology_from_frames
from schemas.topology_tiers import tiered

LINE_BYTES_MAXIMUM = 1024
_TOO_LONG = f"longer than {LINE_BYTES_MAXIMUM:,} bytes"
# Spaces between the parts are optional: terminals that log to a file lose tabs.
# Node descriptions have at most 64 bytes by the InfiniBand specification.
_SECTION = re.compile(r'(?:Switch|Ca|Rt)\s*(\d{1,4})\s*"([SHR])-([0-9a-f]{1,16})"\s*#\s*"(.{0,64}?)"', re.ASCII)
_END = r'"([SHR])-([0-9a-f]{1,16})"\s*\[(\d{1,3})\](?:\[ext \d+\])?\s*(?:\([0-9a-f]+\))?'
_PORT = re.compile(
    r"\[(\d{1,3})\](?:\[ext \d+\])?\s*(?:\([0-9a-f]+\))?\s*"
    + _END
    + r'\s*#\s*(?:lid \d+ lmc \d+\s*)?"(.{0,64}?)"\s*lid \d+\s*(\d{1,2})x([A-Z?]+\d*)',
    re.ASCII,
)
_LISTED = re.compile(
    r"(CA|SW|RT)\s+\d+\s+(\d{1,3})\s+0x([0-9a-f]{1,16})\s+(\d{1,2})x\s+(\S{1,8})\s+"
    r"(?:-\s+(CA|SW|RT)\s+\d+\s+(\d{1,3})\s+0x([0-9a-f]{1,16})\s+"
    r"\(\s*'(.{0,64}?)'\s+-\s+'(.{0,64}?)'\s*\)|'(.{0,64}?)')$",
    re.ASCII,
)
_KNOWN = re.compile(r"#|(vendid|devid|sysimgguid|switchguid|caguid|rtguid)=|Chassis |=~=~")
_PROMPT = re.compile(r"\S.*[#$>](\s*\S*ibnetdiscover.*)?$")
_LISTED_KINDS = {"CA": "H", "SW": "S", "RT": "R"}
# Gb/s of one lane, data rate as it is quoted.
_LANE_GBPS = {"SDR": 2.5, "DDR": 5, "QDR": 10, "FDR10": 10, "FDR": 14, "EDR": 25, "HDR": 50, "NDR": 100, "XDR": 200}
_LINK = {name: LINK_COLUMNS[name] for name in ("a", "a_port", "b", "b_port", "gbps")}


@dataclass(frozen=True)
class DiscoveredFabric:
    """topology: nodes, links and GUIDs (of a port list the first port's). rejects: quarantine rows, offset = line.
    down: ports without a peer (device, port).
    """

    topology: Topology
    rejects: pl.DataFrame
    down: pl.DataFrame


@dataclass
class _Reading:
    """What the lines said so far. End = (device key, port)."""

    devices: dict[str, Device] = field(default_factory=dict)
    links: dict[frozenset[tuple[str, int]], tuple[tuple[str, int], tuple[str, int], float | None]] = field(
        default_factory=dict
    )
    down: list[tuple[str, int]] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    section: str | None = None

    def device(self, kind: str, guid: str, description: str, ports: int | None = None, *, by_name: bool = False) -> str:
        """by_name: the port list gives a port's GUID, so that the ports of one HCA are known by its name alone."""
        key = f"{kind}-{guid.lstrip('0')}"
        if by_name and kind == "H" and " " in description.strip():
            key = f"{kind} {description.strip()}"
        known = self.devices.get(key)
        if known is None or (ports is not None and known.ports is None):
            self.devices[key] = Device(kind, guid.lstrip("0"), description.strip(), ports)
        return key

    def link(self, near: tuple[str, int], far: tuple[str, int], gbps: float | None) -> None:
        self.links.setdefault(frozenset((near, far)), (near, far, gbps))


def decode(
    payload: bytes, surroundings: Surroundings | None = None, *, name: str = "ibnetdiscover", gpus_per_node: int = 8
) -> DiscoveredFabric:
    """Raises Unreadable when it is not such a text at all: empty, binary, too large, or without one device."""
    limit = (surroundings or Surroundings()).bytes_maximum
    if len(payload) > limit:
        raise Unreadable(f"{name}: {len(payload):,} bytes is more than the limit of {limit:,}")
    if b"\0" in payload:
        raise Unreadable(f"{name}: byte {payload.index(0)} is NUL; this is not text")
    reading = _Reading()
    for number, raw in enumerate(payload.split(b"\n"), start=1):
        reason = _read(reading, raw.decode(errors="replace").strip()) if len(raw) <= LINE_BYTES_MAXIMUM else _TOO_LONG
        if reason is not None:
            reading.rejects.append(Reject(rule="ibnetdiscover_line", reason=reason, place=number, raw=raw))
    if not reading.devices:
        raise Unreadable(f"{name}: no switch or host found; give the output of ibnetdiscover or ibnetdiscover -p")
    return _fabric(reading, name, gpus_per_node)


def _read(reading: _Reading, line: str) -> str | None:
    """Take one line in; else why not."""
    if line.startswith("["):
        return _read_port(reading, line)
    if line.startswith(("Switch", "Ca", "Rt")):
        found = _SECTION.match(line)
        reading.section = None
        if found is None:
            return "not a Switch, Ca or Rt line as ibnetdiscover prints it"
        ports, kind, guid, description = found.groups()
        reading.section = reading.device(kind, guid, description, int(ports))
        return None
    if line.startswith(("CA ", "SW ", "RT ")):
        return _read_listed(reading, line)
    if not line or _KNOWN.match(line) or _PROMPT.match(line):
        return None
    return "neither a device, a port nor a comment"


def _read_port(reading: _Reading, line: str) -> str | None:
    found = _PORT.match(line)
    if found is None:
        return "not a port line as ibnetdiscover prints it"
    if reading.section is None:
        return "a port before any readable Switch or Ca line"
    port, kind, guid, peer_port, description, width, speed = found.groups()
    # A host's own line repeats the switch it is on; its description comes last, after the host's own lid.
    peer = reading.device(kind, guid, description)
    reading.link((reading.section, int(port)), (peer, int(peer_port)), _gbps(width, speed))
    return None


def _read_listed(reading: _Reading, line: str) -> str | None:
    found = _LISTED.match(line)
    if found is None:
        return "not a port line as ibnetdiscover -p prints it"
    kind, port, guid, width, speed, peer_kind, peer_port, peer_guid, own, peer, alone = found.groups()
    near = reading.device(_LISTED_KINDS[kind], guid, own if own is not None else alone, by_name=True)
    if peer_kind is None:
        reading.down.append((near, int(port)))
    else:
        far = reading.device(_LISTED_KINDS[peer_kind], peer_guid, peer, by_name=True)
        reading.link((near, int(port)), (far, int(peer_port)), _gbps(width, speed))
    return None


def _gbps(width: str, speed: str) -> float | None:
    lane = _LANE_GBPS.get(speed)
    return None if lane is None else int(width) * lane


def _fabric(reading: _Reading, name: str, gpus_per_node: int) -> DiscoveredFabric:
    devices = {key: device for key, device in reading.devices.items() if not is_aggregation_node(device)}
    names = names_of(devices)
    links = pl.DataFrame(list(_rows(reading, names)), schema=_LINK, orient="row")
    hosts = dict.fromkeys(node_of(names[key]) for key, device in devices.items() if device.kind == "H")
    nodes = pl.DataFrame({"node": sorted(hosts)}, schema={"node": pl.String}).with_columns(role=pl.lit("compute"))
    cable = pl.format("{}:{}--{}:{}", "a", "a_port", "b", "b_port").alias("cable")
    cabled = tiered(links).with_columns(cable).sort("cable")
    topology = topology_from_frames(name, nodes, cabled, gpus_per_node=gpus_per_node)
    guids = [("guid", f"0x{int(device.guid, 16):016x}", names[key]) for key, device in devices.items() if key in names]
    aliases = pl.DataFrame(guids, schema=ALIAS_COLUMNS, orient="row")
    ports = {names[key]: device.ports for key, device in devices.items() if device.kind != "H" and device.ports}
    down = [(names[key], port) for key, port in reading.down if key in names]
    return DiscoveredFabric(
        replace(topology, ports_by_switch=ports, aliases=aliases),
        rejects_frame(reading.rejects),
        pl.DataFrame(down, schema={"device": pl.String, "port": pl.Int64}, orient="row"),
    )


def _rows(reading: _Reading, names: dict[str, str]) -> Iterator[tuple[str, int, str, int, float | None]]:
    for near, far, gbps in reading.links.values():
        if near[0] in names and far[0] in names:
            yield names[near[0]], near[1], names[far[0]], far[1], gbps
