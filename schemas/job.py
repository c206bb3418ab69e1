"""What the training job says of itself, and what people have planned."""

import dataframely as dy

from schemas.columns import instant, name, names, reading, sample_time, text, whole, word


class Heartbeat(dy.Schema):
    """One beat of one rank. A rank stuck in a collective still beats: only its step stands still."""

    time = sample_time()
    node = name("host")
    gpu = whole("slot", 0, 63, "slot in the node", nullable=False)
    job = name("job the rank belongs to")
    rank = whole("rank", 0, 2**31, "rank in the job", nullable=False)
    step = whole("step", 0, 2**62, "training step the rank is in")
    step_seconds = reading("seconds", 0, 1e7, "duration of the last step, barrier to barrier")
    compute_seconds = reading("seconds", 0, 1e7, "the rank's own share of the last step")
    shard_checkpoint_step = whole("step", 0, 2**62, "step of the newest completed checkpoint of its shard")
    shard_checkpoint_time = instant("when that checkpoint was completed")


class JobEvent(dy.Schema):
    """Start, stop, restart or checkpoint of a job. `start` is repeated when a stream begins with a running job."""

    time = sample_time()
    job = name("job")
    kind = word("what happened", "start", "stop", "restart", "checkpoint", nullable=False)
    ranks = whole("ranks", 0, 2**31, "how many ranks the job has")
    members = names("GPU ids of the job")
    checkpoint_interval_seconds = reading("seconds", 0, 1e7, "planned time between checkpoints")


class Maintenance(dy.Schema):
    """A planned time, half open, in which what happens to the entity is not a loss."""

    announced_at = instant("when it became known")
    starts_at = sample_time("first instant of the window")
    ends_at = instant("first instant after the window; null while open")
    kind = word(
        "kind of entity",
        "gpu",
        "node",
        "job",
        "link",
        "cable",
        "switch",
        "pdu",
        "cdu",
        "superblock",
        "pod",
        nullable=False,
    )
    id = name("entity")
    reason = text("why")
