"""Hand-made rows in seconds since T0, given to a detector in one batch or in many."""

from datetime import UTC, datetime, timedelta

import polars as pl
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from detectors.contract import Context
from schemas.tables import TABLE_BY_SCHEMA, empty
from schemas.topology import LINK_COLUMNS, topology_from_frames

T0 = datetime(2026, 3, 2, 9, tzinfo=UTC)
INSTANTS = ("time", "starts_at", "ends_at")


def at(seconds):
    return T0 + timedelta(microseconds=round(seconds * 1e6))


def rows(schema, *given):
    """A frame of the table, in order of time. Times are seconds since T0; columns left out are null."""
    table = TABLE_BY_SCHEMA[schema]
    timed = [{**row, **{name: at(row[name]) for name in INSTANTS if row.get(name) is not None}} for row in given]
    frame = pl.DataFrame(timed, schema_overrides=table.columns, infer_schema_length=None)
    columns = [
        pl.col(name).cast(dtype) if name in frame.columns else pl.lit(None, dtype).alias(name)
        for name, dtype in table.columns.items()
    ]
    return frame.select(columns).sort(table.time, maintain_order=True) if given else empty(table)


def cluster(nodes=8, *, nodes_per_pdu=4, second_feeds=None):
    """Nodes n0, n1, ... with nodes_per_pdu on pdu-0, pdu-1, ... second_feeds: node -> its other PDU."""
    names = [f"n{number}" for number in range(nodes)]
    frame = pl.DataFrame(
        {
            "node": names,
            "pdu": [f"pdu-{number // nodes_per_pdu}" for number in range(nodes)],
            "pdu_b": [(second_feeds or {}).get(name) for name in names],
            "superblock": ["sb0"] * nodes,
        },
        schema_overrides={"pdu_b": pl.String},
    )
    return topology_from_frames("test", frame, pl.DataFrame(schema=LINK_COLUMNS), gpus_per_node=4)


def run(detector, tables, ends, cuts=(), topology=None, **told):
    """Findings of all batches in the order they were said, and the state at the end. told: more of the context."""
    state, said, since = pl.DataFrame(schema=detector.keeps), [], None
    for now in sorted({at(second) for second in cuts if second < ends} | {at(ends)}):
        batch = {}
        for schema in detector.reads:
            table = TABLE_BY_SCHEMA[schema]
            frame = tables.get(schema, empty(table)).filter(pl.col(table.time) < now)
            batch[schema] = frame if since is None else frame.filter(pl.col(table.time) >= since)
        context = Context(now=now, began=T0, topology=topology or cluster(), **told)
        detection = detector.detect(batch, state, context)
        state, since = detection.state, now
        said.append(detection.findings)
    return pl.concat(said), state


def said(findings, *columns):
    """(seconds since T0, *columns) of each finding."""
    seconds = ((pl.col("time") - T0).dt.total_microseconds() * 1e-6).round(3)
    return findings.select(seconds, *columns).rows()


def assert_cuts_change_nothing(detector, tables, ends, cuts, topology=None):
    whole, state = run(detector, tables, ends, topology=topology)
    pieces, state_of_pieces = run(detector, tables, ends, cuts, topology)
    assert_frame_equal(pieces, whole, check_exact=True)
    assert_frame_equal(state_of_pieces, state, check_exact=True)


def cutting(ends):
    """Cuts at quarter seconds."""
    return st.lists(st.integers(1, ends * 4 - 1).map(lambda quarter: quarter / 4), max_size=12, unique=True)


def presence(seconds):
    """For each second whether something sends: runs of presence and silence."""

    def spread(runs):
        flags = [index % 2 == 0 for index, length in enumerate(runs) for _ in range(length)]
        return (flags + [True] * seconds)[:seconds]

    return st.lists(st.sampled_from([1, 2, 3, 4, 5, 9, 15]), max_size=8).map(spread)
