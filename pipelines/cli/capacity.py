"""hotspare spares, checkpoints, failures: what stands ready, what a failure would cost, and what is out."""

from datetime import UTC, datetime
from typing import Any

from pipelines.checkpoints import Advice, JobCheckpoints, advice, registry
from pipelines.cli.output import FOUND_SOMETHING, AsJson, SettingsFile, console, moment, print_json, table
from pipelines.cli.session import operations_store, settings_at, telemetry_store
from pipelines.failure_map import capacity, failure_map, returning
from pipelines.operations_jobs import Jobs
from pipelines.sources.choose import topology_of
from pipelines.spare_forecast import forecast
from pipelines.wording import some


def spares(settings: SettingsFile = None, as_json: AsJson = False) -> int:
    """The pool, and how many spares are needed by the failures to come. Exit 1: too few."""
    chosen = settings_at(settings)
    store, topology, now = operations_store(chosen), topology_of(chosen), datetime.now(UTC)
    found, runs = forecast(store, topology, chosen.capacity, now), capacity(store, topology)
    document = {**vars(found), "is_short": found.is_short, "capacity": {**vars(runs), "share": runs.share}}
    if as_json:
        print_json({**document, "spares": [vars(spare) for spare in store.spares()]})
        return FOUND_SOMETHING if found.is_short else 0
    source = "observed" if found.observed else "reference rate"
    screen = console()
    screen.print("Pool: " + (", ".join(f"{count} {state}" for state, count in sorted(found.pool.items())) or "empty"))
    screen.print(
        f"Failures: {found.failures_per_day:.2f} a day ({source}), {found.repair_hours:g} h until a node is back"
    )
    screen.print(
        f"Needed: {found.needed} nodes so that with {found.target:.1%} none waits; "
        f"{found.with_domain} with the largest power domain on top"
    )
    screen.print(f"Shortage: {found.shortage:.2%} of the time{'; the pool is too small' if found.is_short else ''}")
    screen.print(f"Capacity now: {runs.share:.2%} ({runs.gpus_out} GPUs out, {runs.gpus_stand_in} of spares stand in)")
    return FOUND_SOMETHING if found.is_short else 0


def checkpoints(settings: SettingsFile = None, as_json: AsJson = False) -> int:
    """Newest checkpoint of every job's shards, and what the interval costs against the best one."""
    chosen = settings_at(settings)
    store, topology = operations_store(chosen), topology_of(chosen)
    per_day = forecast(store, topology, chosen.capacity, datetime.now(UTC)).failures_per_day
    planned = {name: roster.checkpoint_interval_seconds for name, roster in Jobs(store).running().items()}
    found = [
        (one, advice(planned.get(one.job), 86400 / per_day, chosen.capacity))
        for one in registry(telemetry_store(chosen))
    ]
    if as_json:
        print_json({"jobs": [{**vars(one), "advice": vars(told)} for one, told in found]})
        return 0
    if not found:
        console().print("No job has beaten yet.")
    for one, told in found:
        _print_job(one, told)
    return 0


def _print_job(one: JobCheckpoints, told: Advice) -> None:
    screen = console()
    age = "unknown" if one.age_seconds is None else f"{one.age_seconds:.0f} s"
    screen.print(
        f"Job {one.job}: {one.shards} shards, step {one.step} complete, oldest shard {age} old at {moment(one.now)}"
    )
    if one.behind:
        screen.print(f"Behind step {one.newest_step}: {some(one.behind)}", markup=False)
    hours = told.between_failures_seconds / 3600
    today = "unknown interval" if told.interval_seconds is None else f"every {told.interval_seconds:.0f} s"
    now = "" if told.waste_now is None else f", which wastes {told.waste_now:.1%}"
    screen.print(f"Now {today}{now}; a failure every {hours:.2f} h")
    screen.print(
        f"Best: {told.daly_seconds:.0f} s (Daly), {told.young_seconds:.0f} s (Young), wastes {told.waste_best:.1%}"
    )
    rows = (
        (f"{cost:.0f} s", f"{best:.0f} s", f"{least:.1%}", "" if today_ is None else f"{today_:.1%}")
        for cost, best, least, today_ in told.sensitivity
    )
    screen.print(table("If a checkpoint stalls the job for", ("stall", "best interval", "wastes", "now wastes"), rows))


def failures(settings: SettingsFile = None, as_json: AsJson = False) -> int:
    """The map of what is failed, degraded, drained, isolated or held, entity by entity."""
    chosen, now = settings_at(settings), datetime.now(UTC)
    store = operations_store(chosen)
    entries, back = failure_map(store, now), returning(store, chosen.recovery, now)
    if as_json:
        document: list[dict[str, Any]] = [{**vars(entry), "returns": back.get(entry.why)} for entry in entries]
        print_json({"entities": document})
    elif entries:
        rows = ((one.kind, one.entity, one.state, moment(one.since), one.why, back.get(one.why, "")) for one in entries)
        columns = ("kind", "entity", "state", "since", "why", "returns")
        console().print(table("What is not whole (UTC)", columns, rows))
    else:
        console().print("Everything is whole.")
    return 0
