"""Where rows go that are not judged: broken ones with their reason, late ones with how late. Nothing is lost."""

import dataframely as dy

from schemas.columns import instant, name, reading, sample_time, text


class Quarantine(dy.Schema):
    """A message or row that could not be taken, with where it came from and its bytes."""

    time = instant("event time, when it could be read")
    table = text("table it was meant for")
    source = text("entity that sent it, when it could be read")
    rule = name("rule it broke, e.g. temperature_celsius|max")
    reason = text("one line for a person")
    topic = text("Kafka topic, or the file")
    partition = dy.Int64(nullable=True, min=0, metadata={"unit": ""}, description="Kafka partition")
    offset = dy.Int64(nullable=True, min=0, metadata={"unit": ""}, description="Kafka offset, or line in the file")
    raw = dy.Binary(nullable=True, metadata={"unit": "bytes"}, description="the bytes as they came, cut at a limit")


class Late(dy.Schema):
    """A good row that came too late to be judged; kept whole as JSON."""

    time = sample_time("event time of the row")
    table = name("table")
    source = name("node, device, CDU or PDU")
    behind_seconds = reading("seconds", 0, 1e12, "how far behind its source's watermark")
    row = text("the row as a JSON object")
