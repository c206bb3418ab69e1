"""The closed loop's outcome over seeds, with its spread and everything it assumes."""

from collections.abc import Sequence
from statistics import mean

from pipelines.capacity import CapacitySettings
from pipelines.closed_loop import ARMS, Assumptions, Outcome
from pipelines.recovery.executors.simulator import SECONDS
from replay.closed_loop import Mix
from schemas.topology import Topology


def summary(outcomes: Sequence[Outcome]) -> list[dict[str, object]]:
    """One row an arm: means over the seeds, and the worst and the best seed."""
    rows: list[dict[str, object]] = []
    for arm in ARMS:
        these = [one for one in outcomes if one.arm == arm]
        shares = [one.effective for one in these]
        rows.append(
            {
                "arm": arm, "seeds": len(these), "failures": sum(one.failures for one in these),
                "effective": mean(shares), "effective_worst": min(shares), "effective_best": max(shares),
                "lost_gpu_hours": mean(one.lost_gpu_hours for one in these),
                "dollars": mean(one.dollars for one in these), "by_people": sum(one.by_people for one in these),
                "refused": sum(one.refused for one in these),
            }
        )  # fmt: skip
    return rows


def as_markdown(  # noqa: PLR0913, PLR0917 - an experiment is all of these
    mix: Mix,
    topology: Topology,
    days: float,
    outcomes: Sequence[Outcome],
    costs: CapacitySettings,
    assumed: Assumptions,
) -> str:
    lines = [
        f"## Mix `{mix.name}`",
        "",
        _setting(mix, topology, days, outcomes),
        "",
        "| who brings the job back | effective training time | worst to best seed | GPU-hours lost | $ | by people |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {row['arm']} | {row['effective']:.2%} | {row['effective_worst']:.2%} to {row['effective_best']:.2%} "
        f"| {row['lost_gpu_hours']:,.0f} | {row['dollars']:,.0f} | {row['by_people']} of {row['failures']} |"
        for row in summary(outcomes)
    ]
    return "\n".join([*lines, "", _assumed(costs, assumed), ""])


def _setting(mix: Mix, topology: Topology, days: float, outcomes: Sequence[Outcome]) -> str:
    spares = sum(row["role"] == "spare" for row in topology.node_rows.values())
    seeds = ", ".join(str(seed) for seed in sorted({one.seed for one in outcomes}))
    return (
        f"{mix.source[0].upper()}{mix.source[1:]}. {topology.nodes.height:,} nodes of {topology.gpus_per_node} GPUs, "
        f"{spares} of them spares; {days:g} simulated days for each of the seeds {seeds}."
    )


def _assumed(costs: CapacitySettings, assumed: Assumptions) -> str:
    took = ", ".join(f"{kind} {seconds:g} s" for kind, seconds in SECONDS.items())
    seen = ", ".join(f"{cause} {seconds:g} s" for cause, seconds in assumed.detection.items())
    facts = (
        f"detection {seen}", f"actions {took}",
        f"people need {assumed.people_median / 60:g} min (median, log-normal, sigma {assumed.people_sigma:g})",
        f"{assumed.timeout / 60:g} min to see a hang, and {costs.restart_seconds:g} s to restart",
        f"a checkpoint every {assumed.checkpoint_interval:g} s of training stalls {costs.checkpoint_stall_seconds:g} s",
        f"{assumed.repair_share:.0%} of drained nodes are back after {assumed.short_repair / 60:g} min",
        f"the others after {costs.repair_hours:g} h",
        "a flapping link is isolated before it ends the job, and the fabric routes around it (optimistic)",
        f"${costs.dollars_per_gpu_hour:g} a GPU-hour; GPU-hours and dollars are a seed's mean",
    )  # fmt: skip
    return f"Assumed: {'; '.join(facts)}."
