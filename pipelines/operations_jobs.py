"""Who is in which training job, as the jobs themselves last said: the guard must not take a job below its minimum."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import msgspec
import polars as pl
import sqlalchemy as sa

from pipelines.operations_store import OperationsStore, insert_into
from pipelines.operations_tables import JOBS
from schemas.topology import node_of

# Members as they are stored: a round of recovery need not read the names of twenty thousand GPUs again.
ROSTERS = sa.select(
    JOBS.c.job, JOBS.c.checkpoint_interval_seconds, sa.cast(JOBS.c.members, sa.Text).label("members")
).order_by(JOBS.c.job)


@dataclass(frozen=True)
class Roster:
    """A running job. nodes: those its GPUs are on. checkpoint_interval_seconds: as it plans."""

    job: str
    nodes: frozenset[str]
    checkpoint_interval_seconds: float | None = None


@dataclass(frozen=True)
class Jobs:
    """All methods raise StoreUnavailable."""

    store: OperationsStore

    def remember(self, rows: pl.DataFrame) -> None:
        """Rows of table job_event. A job's newest start, restart or stop holds, whatever the order of arrival."""
        told = rows.filter(pl.col("kind").is_in(["start", "restart", "stop"])).sort("time")
        newest = told.group_by("job", maintain_order=True).last()
        if newest.is_empty():
            return
        entries = [
            {
                "job": row["job"], "members": [] if row["kind"] == "stop" else (row["members"] or []),
                "checkpoint_interval_seconds": row["checkpoint_interval_seconds"], "at": row["time"],
            }
            for row in newest.iter_rows(named=True)
        ]  # fmt: skip
        with self.store.writing() as connection:
            insert = insert_into(connection, JOBS)
            new = insert.excluded
            changed = {name: new[name] for name in ("members", "checkpoint_interval_seconds", "at")}
            newer = new["at"] >= JOBS.c.at
            connection.execute(insert.on_conflict_do_update(index_elements=["job"], set_=changed, where=newer), entries)

    def running(self) -> Mapping[str, Roster]:
        with self.store.reading() as connection:
            rows = connection.execute(ROSTERS).mappings().all()
        rosters = (Roster(row["job"], _nodes(row["members"]), row["checkpoint_interval_seconds"]) for row in rows)
        return {roster.job: roster for roster in rosters if roster.nodes}


@lru_cache(maxsize=16)
def _nodes(members: str) -> frozenset[str]:
    return frozenset(map(node_of, msgspec.json.decode(members, type=tuple[str, ...])))
