"""Where the faults of a suite strike: never twice in one failure domain, so that each has one explanation."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from replay.scenario import ScenarioError
from schemas.topology import Topology, node_of

Place = tuple[str | None, tuple[str, ...]]  # entity, or roots


@dataclass(frozen=True, eq=False)
class Places:
    """Draws places by kind: gpu, node, cdu, pdu, pdus (one to three neighbours), link (leaf to spine), node_link,
    switch (leaf), any_node (may be struck again), none.
    """

    topology: Topology
    drawn: np.random.Generator
    struck: set[str] = field(default_factory=set)  # nodes and cables

    def draw(self, kind: str) -> Place:
        """Raises ScenarioError for a kind that is not known."""
        draws: dict[str, Callable[[], Place]] = {
            "none": lambda: (None, ()),
            "node": lambda: (self._fresh(self._nodes()), ()),
            "any_node": lambda: (self._any(self._nodes()), ()),
            "gpu": lambda: (f"{self._fresh(self._nodes())}/{self.drawn.integers(self.topology.gpus_per_node)}", ()),
            "cdu": lambda: (self._domain("cdu"), ()),
            "pdu": lambda: (self._domain("pdu"), ()),
            "pdus": lambda: (None, self._pdus()),
            "link": lambda: (self._link("leaf-spine"), ()),
            "node_link": lambda: (self._link("node-leaf"), ()),
            "switch": lambda: (self._any([each for each in self.topology.switches if each.startswith("leaf")]), ()),
        }
        if kind not in draws:
            raise ScenarioError(f"suite: place {kind!r} is not known: choose from {', '.join(draws)}")
        return draws[kind]()

    def _any(self, names: list[str]) -> str:
        return names[int(self.drawn.integers(len(names)))]

    def _fresh(self, names: list[str]) -> str:
        """One that has not been struck, while there is one."""
        fresh = [name for name in names if name not in self.struck]
        chosen = self._any(fresh or names)
        self.struck.add(chosen)
        return chosen

    def _nodes(self) -> list[str]:
        return [*self.topology.nodes.filter(pl.col("role") != "spare")["node"]]

    def _domain(self, kind: str) -> str:
        """The domain with the fewest struck nodes, by chance among equals."""
        domains = [name for each, name in self.topology.nodes_by_domain if each == kind]
        order = [domains[index] for index in self.drawn.permutation(len(domains))]
        chosen: str = min(order, key=lambda name: len(self.struck & set(self.topology.nodes_under(kind, name))))
        self.struck.update(self.topology.nodes_under(kind, chosen))
        return chosen

    def _pdus(self) -> tuple[str, ...]:
        first = self._domain("pdu")
        names = sorted(name for kind, name in self.topology.nodes_by_domain if kind == "pdu")
        at = names.index(first)
        chosen = tuple(names[at : at + int(self.drawn.integers(1, 4))])
        for name in chosen:
            self.struck.update(self.topology.nodes_under("pdu", name))
        return chosen

    def _link(self, tier: str) -> str:
        """A cable none of whose nodes has been struck."""
        links = self.topology.links.filter(pl.col("tier") == tier)
        return self._fresh(
            [
                cable
                for cable, a, b in links.select("cable", "a", "b").iter_rows()
                if not {node_of(a), node_of(b)} & self.struck
            ]
        )
