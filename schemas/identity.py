"""One name for what sources call by several: hosts with and without their domain, GUIDs with and without zeros, PCI
addresses in five spellings, GPUs by UUID.

An alias table says what is what: kind, alias, entity. It comes from settings and the topology, and from rows that carry
two names of one thing (`Resolved.learned`). Identities are fixed while a stream runs: what is learned on the way is for
streams that begin later, since a name that changed in the middle would depend on where the stream was cut.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property

import polars as pl

from schemas.formats.gpu_readings import pci_address
from schemas.topology import ALIAS_COLUMNS, Topology

KINDS = ("host", "device", "guid", "uuid", "pci", "cdu", "pdu")
"""Of ALIAS_COLUMNS. host: name -> node. device: name -> device. guid -> device. uuid -> node/slot. pci:
"node address" -> node/slot, where the node may be a pattern (`n0* 0000:9b:00`) and only the slot of the entity counts.
cdu, pdu: id, or "controller/id", -> CDU or PDU of the topology.
"""
UNRESOLVED_COLUMNS = pl.Schema({"table": pl.String, "kind": pl.String, "alias": pl.String, "rows": pl.Int64})

_GUID = re.compile(r"(?:[HSR]-)?(0x)?([0-9a-f]{1,16})", re.IGNORECASE)
_GUID_DIGITS_BARE = 12  # without 0x, fewer digits may be a word
_PCI = r"^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}$"
FEW = 16
UUID_LENGTH = 8  # what is shorter names no GPU of the world


def guid_of(text: str) -> str | None:
    """`0x2c903006e29b0`, `H-0002C903006E29B0`, `0002:c903:006e:29b0` are one, written as 0x and 16 digits."""
    found = _GUID.fullmatch(text.strip().replace(":", ""))
    if found is None or (found[1] is None and len(found[2]) < _GUID_DIGITS_BARE):
        return None
    return f"0x{int(found[2], 16):016x}"


def canonical_alias(kind: str, alias: str) -> str:
    """The one spelling under which an alias is looked up. Raises ValueError for what is no name of its kind."""
    plain = alias.strip()
    if kind == "guid":
        found = guid_of(plain)
    elif kind == "pci":
        node, _, address = plain.rpartition(" ")
        address = pci_address(address) or ""
        found = f"{node.strip() or '*'} {address}" if address else None
    else:
        found = plain.rstrip(".").lower() if kind in KINDS else None
    if not found:
        raise ValueError(f"{alias!r} is no {kind}" if kind in KINDS else f"{kind!r} is no kind: {', '.join(KINDS)}")
    return found


def alias_table(rows: list[tuple[str, str, str]]) -> pl.DataFrame:
    """ALIAS_COLUMNS from (kind, alias, entity), spelled in one way; of two that contradict the later one holds."""
    spelled = {(kind, canonical_alias(kind, alias)): entity.strip() for kind, alias, entity in rows}
    return pl.DataFrame([(*key, entity) for key, entity in spelled.items()], schema=ALIAS_COLUMNS, orient="row")


@dataclass(frozen=True, eq=False)
class Identities:
    """aliases: of two for one alias the later row holds. nodes, devices, facility: names that are canonical already,
    the last by kind (cdu, pdu). domains: endings of host names that mean nothing.
    """

    aliases: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=ALIAS_COLUMNS))
    nodes: frozenset[str] = frozenset()
    devices: frozenset[str] = frozenset()
    domains: tuple[str, ...] = ()
    facility: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @cached_property
    def by_kind(self) -> Mapping[str, Mapping[str, str]]:
        found: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}
        for kind, alias, entity in self.aliases.iter_rows():
            found[kind][alias] = entity
        return found

    @cached_property
    def _folded(self) -> Mapping[str, str]:
        return {node.lower(): node for node in sorted(self.nodes)}

    @cached_property
    def _slots(self) -> Mapping[str, tuple[tuple[str, str], ...]]:
        """PCI address -> (pattern of nodes, slot), names before patterns."""
        found: dict[str, list[tuple[str, str]]] = {}
        for alias, entity in self.by_kind["pci"].items():
            pattern, _, address = alias.rpartition(" ")
            found.setdefault(address, []).append((pattern, entity.rpartition("/")[2]))
        return {
            address: tuple(sorted(patterns, key=lambda one: any(mark in one[0] for mark in "*?[")))
            for address, patterns in found.items()
        }

    def node(self, name: str) -> tuple[str, bool]:
        """The node of this name, and whether it is known; an unknown name is kept, but for blanks and the domain."""
        if name in self.nodes:
            return name, True
        plain = name.strip().rstrip(".")
        short = self._without_domain(plain)
        for word in dict.fromkeys((plain.lower(), short.lower(), plain.lower().partition(".")[0])):
            if found := self.by_kind["host"].get(word) or self._folded.get(word):
                return found, True
        return short or name, False

    def device(self, name: str) -> tuple[str, bool]:
        """The switch, HCA, server, CDU or PDU of this name, and whether it is known."""
        if name in self.devices:
            return name, True
        plain = name.strip()
        guid = guid_of(plain)
        found = self.by_kind["device"].get(plain.lower()) or self.by_kind["guid"].get(guid or "")
        if found:
            return found, True
        host, slash, rest = plain.partition("/")
        if not slash and self.node(plain)[1]:
            return self.node(plain)  # sensors of a server are told by its name
        for kind in self.facility:
            if self.facility_of(kind, plain)[1]:
                return self.facility_of(kind, plain)
        resolved = f"{self.node(host)[0]}/{rest}" if slash else self._without_domain(plain)
        known = self.by_kind["device"].get(resolved.lower(), resolved)
        return (known, True) if known in self.devices else (guid or known or name, False)

    def facility_of(self, kind: str, name: str) -> tuple[str, bool]:
        """The CDU or PDU of this name, and whether it is known. An id that the topology knows needs no controller."""
        known = self.facility.get(kind, frozenset())
        plain = name.strip()
        own = plain.rpartition("/")[2]
        for word in (plain, own):
            found = word if word in known else self.by_kind[kind].get(word.lower())
            if found:
                return found, True
        return plain or name, False

    def slot(self, node: str, address: str) -> int | None:
        """The slot of the GPU at a canonical PCI address."""
        for pattern, slot in self._slots.get(address, ()):
            if slot.isdecimal() and (pattern == node or fnmatchcase(node, pattern)):
                return int(slot)
        return None

    def _without_domain(self, name: str) -> str:
        for domain in self.domains:
            ending = f".{domain.strip('.').lower()}"
            if name.lower().endswith(ending) and len(name) > len(ending):
                return name[: -len(ending)]
        return name


@dataclass(frozen=True)
class Resolved:
    """tables: with canonical node, gpu, device and pci. learned: ALIAS_COLUMNS not known yet. unresolved: how many rows
    name something that neither topology nor aliases know.
    """

    tables: dict[str, pl.DataFrame]
    learned: pl.DataFrame
    unresolved: pl.DataFrame


def identities_from(topology: Topology, aliases: pl.DataFrame, domains: tuple[str, ...] = ()) -> Identities:
    facility = {
        kind: frozenset(name for one, name in topology.nodes_by_domain if one == kind) for kind in ("cdu", "pdu")
    }
    return Identities(
        pl.concat([topology.aliases, aliases]), frozenset(topology.nodes["node"].to_list()),
        frozenset(topology.links_by_device), domains, facility,
    )  # fmt: skip


def resolve(tables: Mapping[str, pl.DataFrame], identities: Identities, said: pl.DataFrame | None = None) -> Resolved:
    """Rows of each table under canonical names, each by itself. said: ALIAS_COLUMNS that were
    learned before and need not be told again.
    """
    answers: dict[str, pl.DataFrame] = {}
    learned = [pl.DataFrame(schema=ALIAS_COLUMNS)]
    unresolved: list[pl.DataFrame] = [pl.DataFrame(schema=UNRESOLVED_COLUMNS)]
    for name, given in tables.items():
        rows = given
        if not rows.is_empty() and "device" in rows.columns:
            rows, unknown = _renamed(rows, "device", {one: identities.device(one) for one in _names(rows["device"])})
            unresolved.append(_counted(name, "device", rows["device"], unknown if identities.devices else ()))
        for kind in ("cdu", "pdu"):
            if not rows.is_empty() and kind in rows.columns:
                names = {one: identities.facility_of(kind, one) for one in _names(rows[kind])}
                rows, unknown = _renamed(rows, kind, names)
                unresolved.append(_counted(name, kind, rows[kind], unknown if identities.facility.get(kind) else ()))
        if not rows.is_empty() and "node" in rows.columns:
            rows, unknown = _renamed(rows, "node", {one: identities.node(one) for one in _names(rows["node"])})
            if "uuid" in rows.columns and unknown:
                rows, unknown = _by_uuid(rows, unknown, identities)
            unresolved.append(_counted(name, "host", rows["node"], unknown if identities.nodes else ()))
            if "uuid" in rows.columns and rows["uuid"].null_count() < rows.height:
                learned.append(_learned(rows, "uuid"))
            if "pci" in rows.columns and rows["pci"].null_count() < rows.height:
                rows = _one_spelling(rows)
                learned.append(_learned(rows, "pci"))
                rows, lost = _with_slots(rows, identities)
                unresolved.append(_counted(name, "pci", lost, tuple(lost.unique())))
        answers[name] = rows
    news = pl.concat(learned)
    if not news.is_empty():
        known = identities.aliases if said is None else pl.concat([identities.aliases, said])
        news = news.join(known, on=list(ALIAS_COLUMNS), how="anti", maintain_order="left")
    return Resolved(answers, news, pl.concat(unresolved))


def _names(column: pl.Series) -> list[str]:
    if len(column) < FEW:
        return sorted({name for name in column if name is not None})  # one event: its step may not wait for queries
    return column.drop_nulls().unique().sort().to_list()


def _renamed(
    rows: pl.DataFrame, column: str, answers: Mapping[str, tuple[str, bool]]
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """The rows under their canonical names, and those names that nobody knows."""
    changed = {given: name for given, (name, _) in answers.items() if name != given}
    renamed = rows.with_columns(pl.col(column).replace(changed)) if changed else rows
    return renamed, tuple(dict.fromkeys(name for name, known in answers.values() if not known))


def _counted(table: str, kind: str, column: pl.Series, unknown: tuple[str, ...]) -> pl.DataFrame:
    if not unknown:
        return pl.DataFrame(schema=UNRESOLVED_COLUMNS)
    counts = column.rename("alias").to_frame().filter(pl.col("alias").is_in(unknown)).group_by("alias").len("rows")
    return counts.select(
        pl.lit(table).alias("table"), pl.lit(kind).alias("kind"), "alias", pl.col("rows").cast(pl.Int64)
    ).sort("alias")


def _by_uuid(
    rows: pl.DataFrame, unknown: tuple[str, ...], identities: Identities
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """A row of an unknown host belongs to where its GPU is known to be. A known host is believed before a UUID, as
    GPUs are moved and replaced.
    """
    uuids = identities.by_kind["uuid"]
    entities = {one: uuids[one.lower()] for one in _names(rows["uuid"]) if one.lower() in uuids}
    if not entities:
        return rows, unknown
    entity = pl.when(pl.col("node").is_in(unknown)).then(
        pl.col("uuid").replace_strict(entities, default=None, return_dtype=pl.String)
    )
    rows = rows.with_columns(entity.str.split_exact("/", 1).struct.rename_fields(["_node", "_slot"]).alias("_at"))
    rows = rows.unnest("_at").with_columns(
        node=pl.coalesce("_node", "node"), gpu=pl.coalesce(pl.col("_slot").cast(pl.Int64, strict=False), "gpu")
    )
    left = set(rows.filter(pl.col("_node").is_null())["node"].unique().to_list())
    return rows.drop("_node", "_slot"), tuple(name for name in unknown if name in left)


def _one_spelling(rows: pl.DataFrame) -> pl.DataFrame:
    spelled = {one: pci_address(one) or one for one in _names(rows["pci"])}
    changed = {given: name for given, name in spelled.items() if given != name}
    return rows.with_columns(pl.col("pci").replace(changed)) if changed else rows


def _with_slots(rows: pl.DataFrame, identities: Identities) -> tuple[pl.DataFrame, pl.Series]:
    """Slots where only the address is given; and "node address" of each row that stays without."""
    asked = pl.col("gpu").is_null() & pl.col("pci").is_not_null() & (pl.col("kind") != "sxid")  # no GPU, a switch
    where = rows.filter(asked).select("node", "pci").unique().sort("node", "pci")
    slots = [identities.slot(node, pci) for node, pci in where.iter_rows()]
    known = where.with_columns(pl.Series("_slot", slots, dtype=pl.Int64)).drop_nulls("_slot")
    if not known.is_empty():
        rows = rows.join(known, on=["node", "pci"], how="left", maintain_order="left").with_columns(
            gpu=pl.when(asked).then("_slot").otherwise("gpu")
        ).drop("_slot")  # fmt: skip
    lost = rows.filter(asked).select(pl.format("{} {}", "node", "pci").alias("alias"))["alias"]
    return rows, lost


def _learned(rows: pl.DataFrame, column: str) -> pl.DataFrame:
    """ALIAS_COLUMNS from rows that carry the name, node and slot."""
    if column == "pci":
        alias, named = pl.format("{} {}", "node", "pci"), pl.col("pci").str.contains(_PCI)
    else:
        alias, named = (
            pl.col("uuid").str.strip_chars().str.to_lowercase(),
            pl.col("uuid").str.len_chars() >= UUID_LENGTH,
        )
    return (
        rows.filter(named & pl.col("gpu").is_not_null())
        .select(pl.lit(column).alias("kind"), alias.alias("alias"), pl.format("{}/{}", "node", "gpu").alias("entity"))
        .unique(maintain_order=True)
    )
