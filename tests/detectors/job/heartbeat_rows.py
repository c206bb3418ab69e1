"""Beats at 1 Hz, and what job.heartbeat says of them."""

from detectors.job.heartbeat import MissedHeartbeats
from schemas.gpu import Gpu
from schemas.job import Heartbeat, JobEvent, Maintenance
from tests.detectors.timelines import rows, run


def beats(node, gpu, first, last, *, offset=0.0, job="train"):
    """One beat a second in [first, last], `offset` after the full second."""
    return [
        {"time": second + offset, "node": node, "gpu": gpu, "job": job, "rank": gpu}
        for second in range(first, last + 1)
    ]


def judge(given_beats, ends, *, events=(), plans=(), hosts=(), topology=None):
    tables = {
        Heartbeat: rows(Heartbeat, *given_beats),
        JobEvent: rows(JobEvent, *events),
        Maintenance: rows(Maintenance, *plans),
        Gpu: rows(Gpu, *hosts),
    }
    return run(MissedHeartbeats(), tables, ends, topology=topology)[0]
