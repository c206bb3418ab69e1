"""One cable between leaf-000:1 (end a) and spine-000:2 (end b), and rows of its ports and modules by hand."""

from datetime import UTC, datetime, timedelta

import polars as pl

from detectors.contract import Context
from schemas.fabric import FabricPort, Optic
from schemas.job import Maintenance
from schemas.tables import TABLE_BY_SCHEMA
from schemas.topology import topology_from_frames

BEGAN = datetime(2026, 3, 2, 9, tzinfo=UTC)
LINKS = pl.DataFrame({"cable": ["c1"], "a": ["leaf-000"], "a_port": [1], "b": ["spine-000"], "b_port": [2]})
TOPOLOGY = topology_from_frames("one cable", pl.DataFrame({"node": ["n0"]}), LINKS)
A, B = ("leaf-000", 1), ("spine-000", 2)


def at(second):
    return BEGAN + timedelta(seconds=second)


def port(second, end, state="active", downed=None):
    return {"time": at(second), "device": end[0], "port": end[1], "state": state, "link_downed_total": downed}


def lane(second, end, receive, transmit=1.0, *, number=0, **more):
    told = {"time": at(second), "device": end[0], "port": end[1], "lane": number, "light": receive is not None}
    return {**told, "receive_power_dbm": receive, "transmit_power_dbm": transmit, **more}


def maintenance(kind, entity, starts, ends):
    return {"starts_at": at(starts), "ends_at": at(ends), "kind": kind, "id": entity}


def table_of(schema, rows):
    table = TABLE_BY_SCHEMA[schema]
    if not rows:
        return pl.DataFrame(schema=table.columns)
    given = pl.DataFrame(rows, schema_overrides=table.columns, infer_schema_length=None)
    return given.select(
        pl.col(name).cast(dtype) if name in given.columns else pl.lit(None, dtype).alias(name)
        for name, dtype in table.columns.items()
    ).sort(table.time)


def judge(detector, rows, planned=()):
    schema = next(schema for schema in detector.reads if schema in (FabricPort, Optic))
    given = {schema: rows, Maintenance: list(planned)}
    tables = {schema: table_of(schema, given[schema]) for schema in detector.reads}
    context = Context(now=tables[schema]["time"].max() + timedelta(seconds=1), began=BEGAN, topology=TOPOLOGY)
    return detector.detect(tables, pl.DataFrame(schema=detector.keeps), context).findings


def judge_tables(detector, given, topology=TOPOLOGY):
    """given: rows by schema; a table that is not given is empty."""
    tables = {schema: table_of(schema, given.get(schema, [])) for schema in detector.reads}
    newest = max(frame[TABLE_BY_SCHEMA[schema].time].max() for schema, frame in tables.items() if frame.height)
    context = Context(now=newest + timedelta(seconds=1), began=BEGAN, topology=topology)
    return detector.detect(tables, pl.DataFrame(schema=detector.keeps), context).findings


def statements(findings):
    """(second, entity, active) of each finding."""
    return [
        ((time - BEGAN).total_seconds(), entity, active)
        for time, entity, active in findings.select("time", "entity", "active").rows()
    ]
