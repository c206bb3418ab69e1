"""The cluster as arrays: every entity gets an index, and membership becomes an array of indices.

Nodes, switches, CDUs and PDUs have a fixed sub-second sampling offset. Inside, entities are sorted by it, so that
the rows of one tick come out in order of time without sorting.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from replay.randomness import Flags, Integers, generator
from schemas.topology import Topology, node_of

OFFSET_MICROSECONDS_MAXIMUM = 500_000


@dataclass(frozen=True, eq=False)
class FabricLayout:
    """l links and their e = 2 l ends, in order of their device's sampling offset.

    link_ends (l, 2): the ends a and b of each link. end_offset (e,): microseconds after the full second. end_far (e,):
    the other end of the link. end_node (e,): -1 on a switch.
    """

    cables: tuple[str, ...]
    link_index: Mapping[str, int]
    link_ends: Integers
    link_lanes: int
    link_lengths: tuple[float | None, ...]
    link_gbps: tuple[float | None, ...]
    end_device: tuple[str, ...]
    end_port: Integers
    end_offset: Integers
    end_link: Integers
    end_far: Integers
    end_node: Integers


@dataclass(frozen=True, eq=False)
class Layout:
    """Index arrays. n nodes, g = n x slots GPUs (node after node), c CDUs, p PDUs.

    node_offsets (n,), cdu_offsets (c,), pdu_offsets (p,): microseconds after the full second. gpu_node, gpu_cdu (g,).
    node_feeds (n, 2): PDU index of each feed; the same one twice for a single feed; -1 for none.
    ranks (g,): rank in the job, -1 on a spare.
    """

    nodes: tuple[str, ...]
    slots: int
    node_offsets: Integers
    gpu_node: Integers
    gpu_slot: Integers
    gpu_cdu: Integers
    ranks: Integers
    cdus: tuple[str, ...]
    cdu_offsets: Integers
    pdus: tuple[str, ...]
    pdu_offsets: Integers
    node_feeds: Integers
    node_index: Mapping[str, int]
    cdu_index: Mapping[str, int]
    pdu_index: Mapping[str, int]
    fabric: FabricLayout

    @property
    def gpus(self) -> int:
        return len(self.gpu_node)

    @property
    def in_job(self) -> Flags:
        return self.ranks >= 0

    def gpu_name(self, gpu: int) -> str:
        return f"{self.nodes[self.gpu_node[gpu]]}/{self.gpu_slot[gpu]}"

    def gpu_names(self, gpus: Iterable[int]) -> list[str]:
        """GPU ids in order of their names."""
        return sorted((self.gpu_name(gpu) for gpu in gpus), key=lambda name: (node_of(name), int(name.split("/")[1])))

    def gpus_of_nodes(self, nodes: Sequence[int] | Integers) -> Integers:
        """GPU indices of the nodes."""
        first = np.asarray(nodes, dtype=np.int64)[:, None] * self.slots
        return (first + np.arange(self.slots)).ravel()


def layout_of(topology: Topology, seed: int) -> Layout:
    """Index the topology. Raises ValueError when it has no nodes."""
    if topology.nodes.is_empty():
        raise ValueError("the topology has no nodes to simulate")
    frame = topology.nodes.with_columns(offset=_offsets(topology.nodes["node"].to_list(), seed, "node"))
    frame = frame.with_columns(compute=pl.col("role").fill_null("compute") == "compute").with_columns(
        first_rank=(pl.col("compute").cum_sum() - 1) * topology.gpus_per_node
    )
    frame = frame.sort("offset", "node")
    nodes, slots = tuple(frame["node"]), topology.gpus_per_node
    node_index = {node: index for index, node in enumerate(nodes)}
    cdus, pdus = _named(frame, "cdu"), _named(frame, "pdu", "pdu_b")
    cdu_index = {cdu: index for index, cdu in enumerate(cdus)}
    pdu_index = {pdu: index for index, pdu in enumerate(pdus)}
    gpu_node = np.repeat(np.arange(len(nodes)), slots)
    gpu_slot = np.tile(np.arange(slots), len(nodes))
    compute, first_rank = frame["compute"].to_numpy(), frame["first_rank"].to_numpy()
    feeds = [
        (pdu_index.get(a or b or "", -1), pdu_index.get(b or a or "", -1))
        for a, b in frame.select("pdu", "pdu_b").iter_rows()
    ]
    node_cdu = np.array([cdu_index.get(cdu or "", -1) for cdu in frame["cdu"]], dtype=np.int64)
    return Layout(
        nodes=nodes,
        slots=slots,
        node_offsets=frame["offset"].to_numpy(),
        gpu_node=gpu_node,
        gpu_slot=gpu_slot,
        gpu_cdu=node_cdu[gpu_node],
        ranks=np.where(compute[gpu_node], first_rank[gpu_node] + gpu_slot, -1),
        cdus=cdus,
        cdu_offsets=_offsets(cdus, seed, "cdu").to_numpy(),
        pdus=pdus,
        pdu_offsets=_offsets(pdus, seed, "pdu").to_numpy(),
        node_feeds=np.array(feeds, dtype=np.int64),
        node_index=node_index,
        cdu_index=cdu_index,
        pdu_index=pdu_index,
        fabric=_fabric(topology, node_index, frame["offset"].to_numpy(), seed),
    )


def _named(frame: pl.DataFrame, *columns: str) -> tuple[str, ...]:
    return tuple(sorted({name for column in columns for name in frame[column] if name is not None}))


def _offsets(names: Sequence[str], seed: int, purpose: str) -> pl.Series:
    """A fixed number of whole milliseconds for each name."""
    drawn = generator(seed, f"offset of {purpose}").integers(0, OFFSET_MICROSECONDS_MAXIMUM // 1000, len(names))
    return pl.Series("offset", drawn * 1000, dtype=pl.Int64)


def _fabric(topology: Topology, node_index: Mapping[str, int], node_offsets: Integers, seed: int) -> FabricLayout:
    links = topology.links
    count = links.height
    devices = [*links["a"], *links["b"]]
    ports = np.concatenate([links["a_port"].fill_null(1).to_numpy(), links["b_port"].fill_null(1).to_numpy()])
    node = np.array([node_index.get(node_of(device), -1) for device in devices], dtype=np.int64)
    switches = topology.switches
    switch_offset = dict(zip(switches, _offsets(switches, seed, "switch").to_list(), strict=True))
    offset = np.array(
        [node_offsets[n] if n >= 0 else switch_offset[device] for n, device in zip(node, devices, strict=True)],
        dtype=np.int64,
    )
    order = np.argsort(offset, kind="stable")
    place = np.empty(2 * count, dtype=np.int64)
    place[order] = np.arange(2 * count)
    far = np.concatenate([np.arange(count, 2 * count), np.arange(count)])
    return FabricLayout(
        cables=tuple(links["cable"]),
        link_index={cable: index for index, cable in enumerate(links["cable"])},
        link_ends=np.stack([place[:count], place[count:]], axis=1),
        link_lanes=max((lanes for lanes in links["lanes"] if lanes), default=4),
        link_lengths=tuple(links["length_meters"]),
        link_gbps=tuple(links["gbps"]),
        end_device=tuple(devices[index] for index in order),
        end_port=ports[order].astype(np.int64),
        end_offset=offset[order],
        end_link=np.concatenate([np.arange(count), np.arange(count)])[order],
        end_far=place[far[order]],
        end_node=node[order],
    )
