"""A link that goes down and comes back, again and again."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import dataframely as dy
import numpy as np
import polars as pl

from detectors.contract import Context, Detection, evidence, findings_frame, ordered
from detectors.fabric.lanes import with_link
from detectors.fabric.port_samples import ordered_ports
from detectors.levels import LEVEL_COLUMNS, levels
from detectors.stats.scan import Arrays, scan
from detectors.stats.sorted_state import part
from schemas.columns import UTC_MICROSECONDS
from schemas.fabric import FabricPort
from schemas.topology import Topology


@dataclass(frozen=True, kw_only=True)
class FlapPolicy:
    """So many outages within so long are a flap.

    source: who uses it. down_seconds_minimum: above 0, only outages seen to last that long count, and they count when
    they end.
    """

    name: str
    source: str
    outages: int
    window_seconds: float
    down_seconds_minimum: float = 0.0


BYTEROBUST = FlapPolicy(
    name="2 in 5 min", source="ByteRobust: network alerts must repeat", outages=2, window_seconds=300.0
)
SONIC = FlapPolicy(name="3 in 2 h", source="SONiC link-flap policy", outages=3, window_seconds=7200.0)
NVSENTINEL = FlapPolicy(name="3 in 1 h", source="NVSentinel NIC driver log", outages=3, window_seconds=3600.0)
GPUD = FlapPolicy(
    name="3 in 12 h, each 25 s", source="GPUd scan_flaps", outages=3, window_seconds=43_200.0, down_seconds_minimum=25.0
)
AZURE = FlapPolicy(name="5 in 24 h", source="Azure node health checks", outages=5, window_seconds=86_400.0)
GCM = FlapPolicy(name="any", source="GCM: any flap of InfiniBand is critical", outages=1, window_seconds=86_400.0)
VALIDATION = FlapPolicy(
    name="1 of 30 s", source="NVIDIA health validation", outages=1, window_seconds=86_400.0, down_seconds_minimum=30.0
)
POLICIES: tuple[FlapPolicy, ...] = (BYTEROBUST, SONIC, NVSENTINEL, GPUD, AZURE, GCM, VALIDATION)

MEMORY = ("downed", "up", "owed", "down_seconds")
HISTORY = pl.Schema(
    {
        "whole": pl.String(), "entity": pl.String(), "time": UTC_MICROSECONDS, "since": UTC_MICROSECONDS,
        "kind": pl.String(), "lasted_seconds": pl.Float64(),
    }
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LinkFlap:
    """A link is lost and comes back more often than a policy allows.

    What fails: a marginal optic, a loose or dirty plug, a port's SerDes. What it looks like: link_downed_total counts
    up or the state leaves active, at either end; both ends are one cable and one outage, so an end is counted by
    itself and the worse one speaks. A counter that falls was reset and tells nothing; one that stays at its ceiling
    (255) tells nothing either, and the state still does; the first sample never counts. An outage that state and
    counter both show is one.

    Formula: a policy of n outages in w seconds holds at time t when the n-th latest outage, dated at the sample before
    it was seen, lies within [t - w, t]: so two losses found by polling every 10 minutes are no "2 in 5 min". The level
    ends with a sample of a live link at which no policy holds.

    policies: "2 in 5 min" (quick, ByteRobust) or "3 in 2 h" (patient, SONiC); the others of POLICIES are there by name
    (domain.md 4.4, field.md 5). GCM's and NVIDIA's take a single outage. A host's reboot takes its links down
    once or twice: power and node causes explain those.

    Cannot see: outages shorter than a sample on a port whose counter is saturated or silent.
    """

    policies: tuple[FlapPolicy, ...] = (BYTEROBUST, SONIC)

    name: ClassVar[str] = "fabric.link_flap"
    reads: ClassVar[tuple[type[dy.Schema], ...]] = (FabricPort,)
    # what = port (memory of its last sample), outage (the latest few of a port) or level (of a link).
    keeps: ClassVar[pl.Schema] = pl.Schema(
        {"what": pl.String(), **HISTORY, **dict.fromkeys(MEMORY, pl.Float64()), **LEVEL_COLUMNS}
    )  # fmt: skip

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        """Findings on links: link_flap."""
        told = context.once(ordered_ports, tables[FabricPort]).select(
            "time", "device", "port", "entity",
            downed=pl.col("link_downed_total").cast(pl.Float64()),
            up=(pl.col("state") == "active").cast(pl.Float64()),
        ).filter(pl.col("downed").is_not_null() | pl.col("up").is_not_null())  # fmt: skip
        walked, memory = scan(
            told, part(state, "what", "port").select("entity", "time", *MEMORY),
            inputs=("downed", "up"), memory=MEMORY, outputs=("outages", "lasted_seconds"), step=_step,
        )  # fmt: skip
        news = walked.filter((pl.col("outages") > 0) | pl.col("lasted_seconds").is_not_null())
        outages = part(state, "what", "outage").select(HISTORY.names())
        before = part(state, "what", "level").select(LEVEL_COLUMNS.names())
        if news.is_empty() and outages.is_empty():
            return Detection(ordered(), self._kept(before, outages, memory))
        history = self._history(with_link(news, context.topology), outages)
        rows = _of_links(walked, history["whole"].unique(), context.topology)
        changes, level = levels(self._judged(rows, history), before)
        return Detection(self._findings(changes), self._kept(level, history, memory))

    def _kept(self, level: pl.DataFrame, history: pl.DataFrame, memory: pl.DataFrame) -> pl.DataFrame:
        """In order of `what`, entity, kind and time, so that the next batch finds each by bisection."""
        most = max(policy.outages for policy in self.policies)
        latest = history.group_by("entity", "kind", maintain_order=True).tail(most)
        latest = latest.sort("entity", "kind", "time", maintain_order=True)
        kept = {"level": level, "outage": latest, "port": memory}
        parts = [rows.with_columns(what=pl.lit(what)) for what, rows in kept.items()]
        return pl.concat([pl.DataFrame(schema=self.keeps), *parts], how="diagonal")

    def _history(self, rows: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
        """The outages and returns known so far, one row each, sorted by end and time."""
        most = max(policy.outages for policy in self.policies)
        elapsed = pl.duration(microseconds=(pl.col("elapsed_seconds") * 1e6).round().cast(pl.Int64()))
        dated = rows.with_columns(since=pl.col("time") - elapsed)
        lost = dated.filter(pl.col("outages") > 0).with_columns(
            kind=pl.lit("outage").repeat_by(pl.col("outages").clip(0, most).cast(pl.Int64())), lasted_seconds=None
        )
        back = dated.filter(pl.col("lasted_seconds").is_not_null()).with_columns(kind=pl.lit("return"))
        new = pl.concat(
            [lost.explode("kind", empty_as_null=False).select(HISTORY.names()), back.select(HISTORY.names())],
            how="vertical_relaxed",
        )
        return pl.concat([before, new.cast(HISTORY)]).sort("entity", "kind", "time", maintain_order=True)

    def _judged(self, rows: pl.DataFrame, history: pl.DataFrame) -> pl.DataFrame:
        """A row per link and sample time from its first outage on: bad, and by which policy."""
        known = history.sort("time").select("whole", "time", known=pl.lit(True))
        sampled = (
            rows.group_by("whole", "time").agg(alive=pl.col("up").min().fill_null(1.0) == 1)
            .join(known, on="whole", how="semi").sort("time")
            .join_asof(known, on="time", by="whole", check_sortedness=False)
            .filter("known")
        )  # fmt: skip
        ends = sampled.select("whole", "time").join(history.select("whole", "entity").unique(), on="whole").sort("time")
        held = pl.concat(_holding(policy, ends, history) for policy in self.policies)
        worst = held.sort("pace", "policy", "entity", descending=[True, False, False]).group_by("whole", "time").agg(
            pl.col("pace", "policy", "first_at").first(), ends=pl.col("entity").unique().sort()
        )  # fmt: skip
        judged = sampled.join(worst, on=["whole", "time"], how="left")
        bad = pl.when(pl.col("policy").is_not_null()).then(pl.lit(True)).when("alive").then(pl.lit(False))
        return judged.with_columns(bad=bad).rename({"whole": "entity"}).sort("entity", "time")

    def _findings(self, changes: pl.DataFrame) -> pl.DataFrame:
        rows = changes.with_columns(
            code="policy",
            policy_source=pl.col("policy").replace_strict(
                {policy.name: policy.source for policy in self.policies}, default=None, return_dtype=pl.String
            ),
            severity=pl.lit("page"),
            score=pl.col("pace").fill_null(0.0),
            threshold=pl.lit(1.0),
            first_bad_at=pl.when("active")
            .then(pl.min_horizontal("first_at", "first_bad_at"))
            .otherwise("first_bad_at"),
            action=pl.lit("isolate_port"),
        ).with_columns(evidence("policy", "policy_source", "first_at", "ends", "pace"))
        return ordered(findings_frame(rows, self.name, "link_flap", "link"))


def _of_links(walked: pl.DataFrame, links: pl.Series, topology: Topology) -> pl.DataFrame:
    """The samples of both ends of these links. A port without a cable is its own link."""
    if links.is_empty():
        return with_link(walked.clear(), topology)
    ends = topology.ports_by_name.filter(pl.col("cable").is_in(links.implode()))["name"]
    return with_link(walked.filter(pl.col("entity").is_in(pl.concat([ends, links]).implode())), topology)


def _holding(policy: FlapPolicy, ends: pl.DataFrame, history: pl.DataFrame) -> pl.DataFrame:
    """Where the policy holds, by link, time and end; pace: how many times faster than the policy's limit."""
    counted = (
        pl.col("kind") == "outage"
        if policy.down_seconds_minimum == 0
        else pl.col("lasted_seconds") >= policy.down_seconds_minimum
    )
    marks = history.filter(counted).with_columns(
        first_at=pl.col("time").shift(policy.outages - 1).over("entity"),
        first_since=pl.col("since").shift(policy.outages - 1).over("entity"),
    ).select("entity", "time", "first_at", "first_since").sort("time", maintain_order=True)  # fmt: skip
    at = ends.join_asof(marks, on="time", by="entity", check_sortedness=False)
    span_seconds = (pl.col("time") - pl.col("first_since")).dt.total_microseconds() * 1e-6
    pace = policy.window_seconds / pl.max_horizontal(span_seconds, 1.0)
    return at.filter(span_seconds <= policy.window_seconds).select(
        "whole", "time", "entity", "first_at", pace=pace, policy=pl.lit(policy.name)
    )


def _step(memory: Arrays, sample: Arrays) -> tuple[Arrays, Arrays]:
    """Outages seen with this sample, and how long the one lasted that ends with it.

    owed: an outage that the state has shown and the counter has yet to count.
    """
    downed, up, elapsed = sample["downed"], sample["up"], np.nan_to_num(sample["elapsed_seconds"])
    counted = np.maximum(np.nan_to_num(downed - memory["downed"]), 0.0)
    fell = (memory["up"] == 1) & (up == 0)
    owed = np.nan_to_num(memory["owed"])
    outages = np.where(fell, np.maximum(counted, 1.0), np.maximum(counted - owed, 0.0))
    still_owed = np.where(fell, (counted == 0).astype(np.float64), np.maximum(owed - counted, 0.0))
    was_down = memory["up"] == 0
    down_seconds = np.where(was_down, np.nan_to_num(memory["down_seconds"]) + elapsed, 0.0)
    return {
        "downed": np.where(np.isnan(downed), memory["downed"], downed),
        "up": np.where(np.isnan(up), memory["up"], up),
        "owed": np.where(up == 1, 0.0, still_owed),
        "down_seconds": down_seconds,
    }, {
        "outages": outages,
        "lasted_seconds": np.where(was_down & (up == 1), down_seconds, np.nan),
    }
