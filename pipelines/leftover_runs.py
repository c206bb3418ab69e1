"""Before the UI starts, nothing can be running: what says so was left behind by one that was killed."""

import dagster as dg

from pipelines.schedules import PENDING


def end_leftover_runs(instance: dg.DagsterInstance) -> int:
    """Mark such runs as canceled, and free what they held."""
    records = instance.get_run_records(dg.RunsFilter(statuses=[*PENDING, dg.DagsterRunStatus.CANCELING]))
    for record in records:
        instance.report_run_canceled(record.dagster_run, message="The UI that ran this was stopped.")
        instance.event_log_storage.free_concurrency_slots_for_run(record.dagster_run.run_id)
    return len(records)


if __name__ == "__main__":
    with dg.DagsterInstance.get() as current:
        end_leftover_runs(current)
