"""What is normal, learned every night from the day before and frozen as plain numbers."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import dagster as dg
import msgspec
import polars as pl

from detectors.learned.normal import Learning
from detectors.learned.training import Unfit
from detectors.learned.wide_table import Shape, UnusableTable, learn
from pipelines.assets.incident_tables import table
from pipelines.resources import POOL
from pipelines.workplace import REFUSALS, Workplace
from schemas.tables import TABLE_BY_NAME

HISTORY = timedelta(hours=24)
FILLED_SHARE_MINIMUM = 0.99


@dataclass(frozen=True, kw_only=True)
class Learned:
    """A table of which a model is learned: each entity has one of its own."""

    table: str
    entity: str


LEARNED = (Learned(table="coolant_loop", entity="cdu"), Learned(table="power", entity="pdu"))


@dg.asset(
    deps=[each.table for each in LEARNED],
    group_name="models",
    kinds={"json"},
    pool=POOL,
    description="Principal components of every coolant loop and power domain, from the last day. Faults are left out.",
)
def learned_models(
    context: dg.AssetExecutionContext, workplace: dg.ResourceParam[Workplace]
) -> dg.MaterializeResult[Any]:
    now = workplace.clock()
    folder = workplace.settings.store.telemetry.parent / "models"
    folder.mkdir(parents=True, exist_ok=True)
    shown: list[dict[str, Any]] = []
    for each in LEARNED:
        try:
            rows = workplace.telemetry.window(each.table, now - HISTORY, now)
        except REFUSALS as refusal:
            raise dg.Failure(description=str(refusal), allow_retries=False) from None
        try:
            document = learned_from(rows, each)
        except (Unfit, UnusableTable) as reason:
            # yesterday's model stays: an old picture of normal is better than one of a fault
            context.log.warning("%s: not learned: %s", each.table, reason)
            shown.append({"table": each.table, "models": 0, "refused": 0, "reason": str(reason)})
            continue
        path = folder / f"{each.table}.json"
        fresh = path.with_suffix(".new")
        fresh.write_bytes(msgspec.json.encode(document))
        fresh.replace(path)
        refused = document["refused"]
        why = next((f"{who}: {said}" for who, said in refused.items()), "")
        shown.append({"table": each.table, "models": len(document["models"]), "refused": len(refused), "reason": why})
    return dg.MaterializeResult(
        metadata={
            "models": sum(row["models"] for row in shown), "folder": dg.MetadataValue.path(str(folder.absolute())),
            **table("learned", ("table", "models", "refused", "reason"), shown),
        }
    )  # fmt: skip


def learned_from(rows: pl.DataFrame, each: Learned) -> dict[str, Any]:
    """The frozen models of a table, as `detectors.learned.wide_table` writes them. Columns that are often empty, and
    rows that lack one of the others, are not learned from. Raises Unfit and UnusableTable.
    """
    kind = TABLE_BY_NAME[each.table]
    if rows.is_empty():
        raise Unfit("the store has no row of it in the last day")
    numbers = [
        name
        for name, dtype in rows.schema.items()
        if dtype.is_numeric() and name in kind.columns and rows[name].count() >= FILLED_SHARE_MINIMUM * rows.height
    ]
    usable = rows.drop_nulls(numbers).unique([kind.time, each.entity], keep="first").sort(kind.time, each.entity)
    shape = Shape(time=kind.time, entity=each.entity, columns=tuple(numbers))
    return learn(usable, shape, pl.lit(True), Learning()).document()
