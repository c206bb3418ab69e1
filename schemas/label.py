"""The truth of a recording: what was wrong, where, from when to when. Only scoring reads it."""

import dataframely as dy

from schemas.causes import CAUSE_BY_NAME
from schemas.columns import instant, names, sample_time, word
from schemas.finding import ENTITY_KINDS


class Label(dy.Schema):
    """One fault as it was injected or established."""

    cause = word("from the one vocabulary of causes", *CAUSE_BY_NAME, nullable=False)
    root_kind = word("kind of the root", *ENTITY_KINDS, nullable=False)
    roots = names("ids of the root entities")
    members = names("GPU ids out of service, throttled, braked or stalled by it")
    starts_at = sample_time("onset")
    ends_at = instant("end; null when it lasts to the end of the recording")
