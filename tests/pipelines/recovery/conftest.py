from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

from pipelines.operations_store import OperationsStore
from schemas.incident import Incident
from schemas.topology import Topology, topology_from_frames
from tests.pipelines.postgresql import postgresql_store

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="session")
def topology() -> Topology:
    """Two superblocks of 16 nodes with two PDUs each, 4 of the 32 nodes spare; node i has HCA 0 on leaf-(i // 16)."""
    nodes = pl.DataFrame(
        [
            {
                "node": f"n{i:05}", "superblock": f"sb-{i // 16}", "pod": "pod-0", "pdu": f"pdu-{i // 8}",
                "cdu": f"cdu-{i // 16}", "role": "spare" if i % 8 == 7 else "compute",
            }
            for i in range(32)
        ]
    )  # fmt: skip
    links = [
        {"cable": f"c{i:05}", "a": f"n{i:05}/hca0", "a_port": 1, "b": f"leaf-{i // 16}", "b_port": i % 16 + 1,
         "tier": "node-leaf"}
        for i in range(32)
    ]  # fmt: skip
    links += [
        {"cable": f"s{i:05}", "a": f"leaf-{i // 16}", "a_port": 17 + i % 16, "b": f"spine-{i % 16}",
         "b_port": i // 16 + 1, "tier": "leaf-spine"}
        for i in range(32)
    ]  # fmt: skip
    return topology_from_frames("test", nodes, pl.DataFrame(links))


@pytest.fixture(params=["memory", "postgresql"])
def store(request: pytest.FixtureRequest) -> Iterator[OperationsStore]:
    if request.param == "postgresql":
        with postgresql_store() as opened:
            yield opened
        return
    opened = OperationsStore.open(":memory:")
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def incident() -> Callable[..., Incident]:
    """An incident of a cause with the given roots; everything else can be said by name."""

    def make(cause: str, root_kind: Any, *roots: str, **changes: Any) -> Incident:
        values: dict[str, Any] = {
            "id": f"inc-{cause}-{'-'.join(roots)}", "cause": cause, "severity": "page", "state": "firing",
            "root_kind": root_kind, "roots": roots, "members": (), "symptoms": (), "starts_at": T0,
            "detected_at": T0 + timedelta(seconds=2), "ends_at": None, "evidence": (),
        }  # fmt: skip
        return Incident(**{**values, **changes})

    return make
