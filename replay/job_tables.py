"""What the training job says: heartbeat and job_event rows of a block, and planned maintenance."""

from typing import Any

import numpy as np
import polars as pl

from replay.cluster import Block
from replay.conditions import Conditions
from replay.layout import Layout
from replay.rows import Column, event_rows, sampled_rows, ticks_of
from replay.scenario import JobPlan
from schemas.columns import UTC_MICROSECONDS


class JobTables:
    def __init__(self, layout: Layout, starts_at: int, interval: int, plan: JobPlan) -> None:
        self.layout, self.starts_at, self.interval, self.plan = layout, starts_at, interval, plan
        self.ranked = np.flatnonzero(layout.in_job)
        self.entities = pl.DataFrame(
            {
                "node": [layout.nodes[layout.gpu_node[gpu]] for gpu in self.ranked],
                "gpu": layout.gpu_slot[self.ranked],
                "job": [plan.name] * len(self.ranked),
                "rank": layout.ranks[self.ranked],
            },
            schema={"node": pl.String, "gpu": pl.Int64, "job": pl.String, "rank": pl.Int64},
        )
        self._was_down = False

    def heartbeat(self, block: Block, conditions: Conditions) -> pl.DataFrame:
        """A beat of each living rank; what it says of steps is the same for all but its own share."""
        layout, ticks = self.layout, ticks_of(block.seconds, self.interval)
        shape = (len(ticks), len(self.ranked))
        shares = np.array([block.job_shares[tick][self.ranked] for tick in ticks]).reshape(shape)
        saved_at = self.starts_at + (block.checkpoint_times[ticks] * 1e6).astype(np.int64)
        beats, down = block.alive[ticks][:, self.ranked], conditions.get("job_down")
        if down is not None:
            beats &= ~down[ticks][:, None]
        silent = conditions.silent.get("heartbeat")
        if silent is not None:
            beats &= ~silent[ticks][:, layout.gpu_node[self.ranked]]
        saved = pl.Series(np.repeat(saved_at, shape[1])).cast(UTC_MICROSECONDS)
        readings: dict[str, Column] = {
            "step": np.repeat(block.job_steps[ticks], shape[1]),
            "step_seconds": np.repeat(np.round(block.job_step_seconds[ticks], 4), shape[1]),
            "compute_seconds": np.round(shares, 4),
            "shard_checkpoint_step": np.repeat(block.checkpoint_steps[ticks], shape[1]),
            "shard_checkpoint_time": saved,
        }
        offsets = layout.node_offsets[layout.gpu_node[self.ranked]]
        times = self.starts_at + block.seconds[ticks].astype(np.int64) * 1_000_000
        return sampled_rows("heartbeat", self.entities, offsets, times, readings, beats)

    def events(self, number: int, block: Block, conditions: Conditions) -> pl.DataFrame:
        """The running job is announced at the beginning; then every completed checkpoint."""
        told = {
            "job": self.plan.name,
            "ranks": len(self.ranked),
            "checkpoint_interval_seconds": self.plan.checkpoint_interval_seconds,
        }
        rows: list[dict[str, Any]] = []
        if number == 0 and len(self.ranked):
            members = self.layout.gpu_names(self.ranked)
            rows.append({**told, "time": self.starts_at, "kind": "start", "members": members})
        for second in block.seconds[block.checkpoints_completed]:
            rows.append({**told, "time": self.starts_at + int(second) * 1_000_000, "kind": "checkpoint"})  # noqa: PERF401  # after the start
        rows += self._ends_and_starts(told, block, conditions)
        for planned in conditions.planned:
            if planned.restarts in block.seconds:
                left = np.flatnonzero(block.alive[planned.restarts - int(block.seconds[0])] & self.layout.in_job)
                members = self.layout.gpu_names(left)
                at = self.starts_at + planned.restarts * 1_000_000
                rows.append({**told, "time": at, "kind": "restart", "ranks": len(left), "members": members})
        return event_rows("job_event", rows)

    def _ends_and_starts(self, told: dict[str, Any], block: Block, conditions: Conditions) -> list[dict[str, Any]]:
        """What the scheduler says of a job whose processes are gone, and of its next life."""
        down = conditions.get("job_down")
        now = np.zeros(len(block.seconds), dtype=np.bool_) if down is None else down
        changes = np.flatnonzero(now != np.append(self._was_down, now[:-1]))
        self._was_down = bool(now[-1])
        rows = []
        for place in changes:
            at = self.starts_at + int(block.seconds[place]) * 1_000_000
            left = np.flatnonzero(block.alive[place] & self.layout.in_job)
            kind, members = ("stop", None) if now[place] else ("start", self.layout.gpu_names(left))
            rows.append({**told, "time": at, "kind": kind, "ranks": len(left), "members": members})
        return rows

    def maintenance(self, block: Block, conditions: Conditions) -> pl.DataFrame:
        """What people have planned, told when it begins."""
        second = 1_000_000
        rows = [
            {
                "announced_at": self.starts_at + planned.announced * second,
                "starts_at": self.starts_at + planned.starts * second,
                "ends_at": self.starts_at + planned.ends * second,
                "kind": "node",
                "id": planned.node,
                "reason": planned.reason,
            }
            for planned in conditions.planned
            if planned.starts in block.seconds
        ]
        return event_rows("maintenance", rows)
