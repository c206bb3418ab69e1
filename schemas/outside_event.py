"""What people and other systems do to a cluster or around it: deploys, changed settings, firmware rollouts, works."""

import dataframely as dy

from schemas.columns import instant, name, names, sample_time, text

NAME_CHARACTERS_MAXIMUM = 256
TEXT_CHARACTERS_MAXIMUM = 4000
KINDS = ("deploy", "configuration", "firmware", "construction")
"""Usual kinds; a source may have others."""


class OutsideEvent(dy.Schema):
    """Something that was done to the cluster or around it: a deploy, a changed setting, a firmware rollout, works on
    the building. Nothing is judged by it; it stands in the timelines of incidents that it touches or comes before.
    """

    time = sample_time("when it happened, or began")
    ends_at = instant("when it was over; null for what happened in one moment")
    recorded_at = instant("when it became known")
    kind = name("deploy, configuration, firmware, construction, or a word of the source's own")
    title = name("what it was, in one line")
    details = text("more about it", TEXT_CHARACTERS_MAXIMUM)
    who = text("who did it", TEXT_CHARACTERS_MAXIMUM)
    touches = names(
        "what it touches: ids (n00012, n00012/3, leaf-017), kind=id for all that a domain holds (pdu=pdu-003), with * "
        "for any letters; null: everything",
        NAME_CHARACTERS_MAXIMUM,
    )
    link = text("where to read more", TEXT_CHARACTERS_MAXIMUM)
    tags = names("further words of its source", NAME_CHARACTERS_MAXIMUM)
    id = text("its id at its source; a later row of the same id takes its place", TEXT_CHARACTERS_MAXIMUM)
