"""An action as a row of the ledger, and back."""

from dataclasses import fields
from typing import Any

import sqlalchemy as sa

from pipelines.recovery.ledger_queries import EFFECTIVE, TAKES_OUT
from schemas.action import ActionRecord, ActionRequest

ASKED = tuple(field.name for field in fields(ActionRequest))


def decision_of(record: ActionRecord) -> dict[str, Any]:
    return {"mode": record.mode, "outcome": record.outcome, "why": record.why, "at": record.at}


def new_row(record: ActionRecord) -> dict[str, Any]:
    begun = int(record.outcome == "pending")
    return {
        **vars(record.request), **decision_of(record), "attempts": begun, "recoverable": False,
        "is_out": takes_out(record),
    }  # fmt: skip


def takes_out(record: ActionRecord) -> bool:
    return record.request.kind in TAKES_OUT and record.outcome in EFFECTIVE


def record_of(row: sa.RowMapping) -> ActionRecord:
    request = ActionRequest(**{name: row[name] for name in ASKED})
    return ActionRecord(request=request, mode=row["mode"], outcome=row["outcome"], why=row["why"], at=row["at"])
