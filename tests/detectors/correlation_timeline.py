"""A small cluster, findings by the second, and what stands at each second. Seconds count from 12:00:00."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import polars as pl

from detectors.contract import FINDING_COLUMNS, Context
from detectors.correlate import correlate
from detectors.correlation_state import Correlation, decode, encode
from schemas.causes import CAUSE_BY_NAME
from schemas.incident import Incident
from schemas.topology import Topology, topology_from_frames

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def cluster() -> Topology:
    """64 nodes of 8 GPUs: 16 nodes to a PDU, 32 to a superblock and its CDU. The last 16 have a second feed."""
    nodes = [
        {
            "node": f"n{n:02}", "superblock": f"sb{n // 32}", "pod": "pod0", "pdu": f"pdu{n // 16}",
            "cdu": f"cdu{n // 32}", "pdu_b": "pdu9" if n >= 48 else None, "rack": f"r{n // 4}",
        }
        for n in range(64)
    ]  # fmt: skip
    near = [
        {"cable": f"c{n:02}", "a": f"n{n:02}/hca0", "a_port": 1, "b": f"leaf{n // 32}", "b_port": n % 32 + 1}
        for n in range(64)
    ]
    far = [{"cable": f"up{leaf}", "a": f"leaf{leaf}", "a_port": 40, "b": "spine0", "b_port": leaf} for leaf in (0, 1)]
    return topology_from_frames("test", pl.DataFrame(nodes), pl.DataFrame(near + far))


TOPOLOGY = cluster()


def finding(at: float, cause: str, entity: str, *, active: bool = True, **said: object) -> dict[str, object]:
    known = CAUSE_BY_NAME[cause]
    onset = said.pop("onset", at)
    return {
        "time": NOON + timedelta(seconds=at), "detector": f"test.{cause}", "cause": cause, "kind": known.kind,
        "entity": entity, "active": active, "code": None, "severity": known.severity, "score": 2.0, "threshold": 1.0,
        "first_bad_at": NOON + timedelta(seconds=float(onset)), "evidence": None, "action": None, **said,
    }  # fmt: skip


def end(at: float, cause: str, entity: str, **said: object) -> dict[str, object]:
    return finding(at, cause, entity, active=False, **said)


@dataclass
class Timeline:
    """Statements, played second by second through a state that is stored and loaded again before each step."""

    topology: Topology = TOPOLOGY
    told: list[tuple[float, Incident]] = field(default_factory=list)

    def play(self, *said: dict[str, object], until: float) -> "Timeline":
        state = Correlation()
        rows = sorted(said, key=lambda row: row["time"])
        for second in range(int(until) + 1):
            now = NOON + timedelta(seconds=second)
            batch = [row for row in rows if now - timedelta(seconds=1) <= row["time"] < now]
            frame = pl.DataFrame(batch, schema=FINDING_COLUMNS)
            incidents, state = correlate(frame, state, Context(now=now, began=NOON, topology=self.topology))
            state = decode(encode(state))
            self.told.extend((second, incident) for incident in incidents)
        return self

    def at(self, second: float) -> list[Incident]:
        """The last word about each incident by then, without those that were folded into others."""
        last = {incident.id: incident for when, incident in self.told if when <= second}
        return [incident for incident in last.values() if incident.merged_into is None]

    def only(self, second: float = 1e9) -> Incident:
        (incident,) = self.at(second)
        return incident

    def pages(self) -> set[str]:
        return {incident.id for _, incident in self.told if incident.state == "firing"}


def play(*said: dict[str, object], until: float = 20, topology: Topology = TOPOLOGY) -> Timeline:
    return Timeline(topology).play(*said, until=until)


def seconds(time: datetime | None) -> float | None:
    return None if time is None else (time - NOON).total_seconds()


def nodes_lost(first: float, step: float, onset: float | None = None) -> list[dict[str, object]]:
    """The 48 nodes of three PDUs, each stated lost a little after the last."""
    return [
        finding(first + step * n, "node_lost", f"n{n:02}", onset=first + step * n if onset is None else onset)
        for n in range(48)
    ]
