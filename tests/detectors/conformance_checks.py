"""The checks of the conformance suite. Each raises AssertionError when a detector does not do what it must."""

import io
import json
from dataclasses import replace
from datetime import timedelta
from difflib import SequenceMatcher
from functools import cache, lru_cache
from typing import get_args

import polars as pl
from polars.testing import assert_frame_equal

from detectors.contract import FINDING_COLUMNS, Context, Detection
from schemas.action import ActionKind
from schemas.finding import Finding
from schemas.tables import TABLE_BY_SCHEMA
from schemas.topology import topology_from_frames
from tests.detectors.streams import EVERY_TABLE, scenario_of, short_scenarios, stream_of

AFTERWARDS = timedelta(seconds=90)


@cache
def fault_of(detector):
    """The stream in which the detector says an expected cause of an expected root in time, and when it says so."""

    own = detector.name.partition(".")[2]

    def alike(name):
        words = (name, *(each.cause for each in scenario_of(name).expects))
        return max(SequenceMatcher(None, own, word).ratio() for word in words)

    for name in sorted(short_scenarios(), key=alike, reverse=True):
        stream = stream_of(name).read_by(detector)
        said_at = first_in_time(stream, stream.run(detector).findings)
        if said_at is not None:
            return stream.until(min(stream.ends, said_at + AFTERWARDS)), said_at
    raise AssertionError(f"no scenario makes {detector.name} say an expected cause of its root in time")


def first_in_time(stream, findings):
    """When the first statement was made that an [[expect]] of the scenario waits for, if it was in time."""
    for expect in stream.expects:
        if expect.between:
            earliest, latest = (stream.began + timedelta(seconds=second) for second in expect.between)
        else:
            earliest = min(stream.onsets[root] for root in expect.roots)
            latest = earliest + timedelta(seconds=expect.detected_within_seconds)
        right = (pl.col("cause") == expect.cause) & pl.col("entity").is_in(expect.roots) & pl.col("active")
        said = findings.filter(right & pl.col("time").is_between(earliest, latest))
        if said.height:
            return said["time"].min()
    return None


def same(one: Detection, other: Detection):
    assert_frame_equal(one.findings, other.findings, check_exact=True)
    assert_frame_equal(one.state, other.state, check_exact=True)


@lru_cache(maxsize=4)
def uncut(detector, stream):
    """The whole stream in one batch, to which every cut is compared."""
    return stream.run(detector)


def check_cut(detector, stream, cuts):
    same(stream.run(detector, tuple(cuts)), uncut(detector, stream))


def check_order_of_rows(detector, stream):
    """Rows of one instant may come in any order. Times are cut to seconds, so that sources share their instants."""
    together = with_tables(stream, {name: to_seconds(frame) for name, frame in stream.tables.items()})
    shuffled = {
        table.name: together.tables[table.name]
        .sample(fraction=1, shuffle=True, seed=7)
        .sort(table.time, maintain_order=True)
        for table in EVERY_TABLE
    }
    same(with_tables(together, shuffled).run(detector), together.run(detector))


def check_names_do_not_matter(detector, stream):
    """Nodes, loops, PDUs, cables and switches that swap names swap their findings, and nothing else changes."""
    swapped = swaps(stream.topology)
    tables = {name: renamed(frame, swapped) for name, frame in stream.tables.items()}
    topology = topology_from_frames(
        "swapped", renamed(stream.topology.nodes, swapped), renamed(stream.topology.links, swapped)
    )
    other = replace(with_tables(stream, tables), topology=topology).run(detector).findings
    columns = ("time", "cause", "kind", "entity", "active", "severity", "code", "first_bad_at")
    wanted = renamed(stream.run(detector).findings, swapped)
    assert_frame_equal(other.select(columns).sort(columns), wanted.select(columns).sort(columns))


def swaps(topology):
    """Name -> the name it swaps with, for what the frames name."""
    found = {}
    devices = pl.concat([topology.links["a"], topology.links["b"]]).filter(
        ~pl.concat([topology.links["a"], topology.links["b"]]).str.contains("/")
    )
    for names in (
        topology.nodes["node"],
        topology.nodes["cdu"],
        topology.nodes["pdu"],
        topology.links["cable"],
        devices,
    ):
        ordered = names.drop_nulls().unique().sort().to_list()
        found.update(zip(ordered, reversed(ordered), strict=True))
    return found


def renamed(frame, swapped):
    """The frame with every name in it swapped: the name alone, or what stands before / or : (n00012/3, leaf-017:33)."""

    def rename(text):
        for sign in ("/", ":"):
            head, found, rest = text.partition(sign)
            if found and head in swapped:
                return swapped[head] + sign + rest
            if found and rest in swapped:
                return head + sign + swapped[rest]
        return swapped.get(text, text)

    def column(name):
        values = frame[name].drop_nulls()
        if values.dtype == pl.List(pl.String):
            return pl.col(name).list.eval(
                pl.element().replace({text: rename(text) for text in values.explode().unique().drop_nulls()})
            )
        return pl.col(name).replace({text: rename(text) for text in values.unique()})

    return frame.with_columns(
        column(name) for name, dtype in frame.schema.items() if dtype in (pl.String, pl.List(pl.String))
    )


def to_seconds(frame):
    return frame.with_columns(
        pl.col(name).dt.truncate("1s") for name, dtype in frame.schema.items() if dtype.base_type() is pl.Datetime
    )


def with_tables(stream, tables):
    return replace(stream, tables={**stream.tables, **tables})


def check_inputs_unchanged(detector, stream):
    half = stream.began + (stream.ends - stream.began) / 2
    state = stream.step(detector, pl.DataFrame(schema=detector.keeps), stream.began, half).state
    batch = {schema: stream.rows(TABLE_BY_SCHEMA[schema], half, stream.ends) for schema in detector.reads}
    kept, given = state.clone(), {schema: frame.clone() for schema, frame in batch.items()}
    detector.detect(batch, state, Context(now=stream.ends, began=stream.began, topology=stream.topology))
    assert_frame_equal(state, kept)
    for schema, frame in batch.items():
        assert_frame_equal(frame, given[schema])


def check_state_survives_storage(detector, stream, at):
    state = stream.step(detector, pl.DataFrame(schema=detector.keeps), stream.began, at).state
    assert state.schema == detector.keeps
    stored = io.BytesIO()
    state.write_parquet(stored)
    parquet = pl.read_parquet(stored.getvalue())
    stored = io.BytesIO()
    state.write_ipc(stored)
    ipc = pl.read_ipc(stored.getvalue())
    wanted = stream.step(detector, state, at, stream.ends)
    for read in (parquet, ipc):
        assert_frame_equal(read, state)
        same(stream.step(detector, read, at, stream.ends), wanted)


def check_state_bounded(detector, stream):
    """The same stream again and again: after two rounds the third and fourth leave no more behind."""
    length = stream.ends - stream.began
    state, sizes = pl.DataFrame(schema=detector.keeps), []
    for number in range(4):
        tables = {table.name: later(stream.tables[table.name], number * length) for table in EVERY_TABLE}
        moved = with_tables(stream, tables)
        since = stream.began + number * length
        state = moved.step(detector, state, since, since + length).state
        nested = sum(
            state[name].list.len().sum() for name, dtype in state.schema.items() if dtype.base_type() is pl.List
        )
        sizes.append(state.height + nested)
    assert sizes[3] <= sizes[1], f"state grows with time: {sizes}"


def later(frame, by):
    return frame.with_columns(
        pl.col(name) + by for name, dtype in frame.schema.items() if dtype.base_type() is pl.Datetime
    )


def check_findings(detector, stream, detection, since=None):
    """Every statement keeps the schema, and was true before the watermark and not before its own onset."""
    said = detection.findings
    assert said.schema == FINDING_COLUMNS
    good, bad = Finding.filter(said)
    assert bad.counts() == {}
    assert good.height == said.height
    assert said["detector"].unique().to_list() in ([], [detector.name])
    assert said.filter(~pl.col("time").is_between(since or stream.began, stream.ends, closed="left")).is_empty()
    assert said.filter(pl.col("active") & (pl.col("first_bad_at") > pl.col("time"))).is_empty()
    assert said["time"].is_sorted()
    for row in said.filter(pl.col("evidence").is_not_null())["evidence"]:
        assert isinstance(json.loads(row), dict)
    assert set(said["action"].drop_nulls()) <= set(get_args(ActionKind))


def check_survives(detector, stream):
    """Odd input is no reason to raise; what is said about it keeps the rules."""
    check_findings(detector, stream, stream.run(detector))


def check_silent(detector, stream):
    assert stream.run(detector).findings.is_empty()
