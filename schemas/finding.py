"""What a detector says: at this time, this entity is (or no longer is) in this bad state, and here is why."""

import dataframely as dy

from schemas.causes import CAUSE_BY_NAME
from schemas.columns import name, reading, sample_time, text, word

ENTITY_KINDS = ("gpu", "node", "link", "cable", "switch", "cdu", "pdu", "job", "source")


class Finding(dy.Schema):
    """A level, stated whenever it changes: it begins, gets worse, gets better, or ends (active = false).

    Between two statements about the same (detector, cause, entity) the level holds; where the detector holds one for
    each code (driver errors), about the same code too. Saying a level twice is harmless; an entity that falls silent
    keeps its level, because unknown is not healthy.
    """

    time = sample_time("event time from which the statement holds")
    detector = name("who says it, e.g. gpu.xid")
    cause = word("from the one vocabulary of causes", *CAUSE_BY_NAME, nullable=False)
    kind = word("kind of entity", *ENTITY_KINDS, nullable=False)
    entity = name("entity id")
    active = dy.Bool(metadata={"unit": ""}, description="whether the entity is in the bad state")
    code = text("which rule, XID or verdict in particular")
    severity = word("what a person must do", "page", "ticket", "info", nullable=False)
    score = reading("same as the threshold", -1e30, 1e30, "how abnormal; higher is worse")
    threshold = reading("as the detector says", -1e30, 1e30, "where abnormal begins")
    first_bad_at = sample_time("onset as estimated from the data")
    evidence = text("JSON object: the values seen, the peers' values")
    action = text("recommended action")


class TelemetryHealth(dy.Schema):
    """What admission did to one source's rows in one batch: the telemetry plane watched like any other."""

    time = sample_time("newest event time of the batch")
    table = name("table")
    source = name("node, device, CDU or PDU that sent the rows")
    rows = dy.Int64(min=0, metadata={"unit": "rows"}, description="rows accepted")
    late = dy.Int64(min=0, metadata={"unit": "rows"}, description="rows behind the watermark")
    quarantined = dy.Int64(min=0, metadata={"unit": "rows"}, description="rows that broke a rule")
    reason = text("rule broken most often")
