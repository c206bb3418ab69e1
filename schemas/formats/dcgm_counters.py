"""dcgm-exporter's list of counters (default-counters.csv): a configuration, not telemetry.

It is read because it tells before any sample comes which columns an exporter will never show: a field that is
commented out is absent in the field, and detectors that need it are blind.
"""

import re

from schemas.formats import payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable, rejects_frame
from schemas.formats.gpu_samples import DCGM_FIELDS

NAME = "dcgm-exporter counters"
VERSIONS = "default-counters.csv, dcp-metrics-included.csv"
LEAVES = "no telemetry: answers with the columns such an exporter lacks"
LINE = re.compile(r"^\s*(DCGM_\w+)\s*,\s*(gauge|counter|label|histogram|summary)\s*,")
LOOKS = re.compile(r"^\s*(?:#\s*)?DCGM_\w+\s*,\s*(?:gauge|counter|label)\s*,", re.MULTILINE)


def looks_like(head: bytes, name: str) -> bool:  # noqa: ARG001  every format answers to the same question
    return LOOKS.search(payload.head_text(head)) is not None


def decode(data: bytes, surroundings: Surroundings) -> Decoded:
    """No rows. missing: gpu columns that an exporter with this list cannot show. One reject says what the file is.
    Raises Unreadable when no line lists a counter.
    """
    text = payload.text(data, surroundings, NAME)
    listed = {match.group(1) for match in map(LINE.match, text.split("\n")) if match}
    if not listed:
        raise Unreadable(f"{NAME}: no line lists a counter")
    missing = tuple(field.column for field in DCGM_FIELDS if not listed.intersection(field.metrics))
    shown = ", ".join(missing) if missing else "nothing"
    reason = f"a configuration of dcgm-exporter ({len(listed)} fields), no telemetry; such an exporter lacks: {shown}"
    return Decoded(rejects=rejects_frame([Reject(rule="file|configuration", reason=reason)]), missing=missing)
