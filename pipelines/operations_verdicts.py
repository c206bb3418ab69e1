"""Whether an incident was one: what people say afterwards, which is what a backtest counts as true."""

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from pipelines.operations_people import person, words
from pipelines.operations_store import OperationsStore, insert_into
from pipelines.operations_tables import NOTES, VERDICTS
from schemas.incident import Incident

FALSE = "false"  # a note that begins with this word says so too, where no verdict was given


@dataclass(frozen=True)
class Verdicts:
    """All methods raise StoreUnavailable."""

    store: OperationsStore

    def judge(self, name: str, by: str, why: str, at: datetime, *, is_true: bool) -> Incident:
        """Say whether there was something; the last word holds. Raises NotFound, ValueError."""
        row = {"at": at, "by": person(by), "is_true": is_true, "why": words(why.strip())}
        with self.store.writing() as connection:
            found = self.store.incident(name)
            said = insert_into(connection, VERDICTS).values(incident=found.id, **row)
            connection.execute(said.on_conflict_do_nothing())
        return found

    def false(self) -> frozenset[str]:
        """Ids of the incidents that people say were none."""
        verdicts = sa.select(VERDICTS.c.incident, VERDICTS.c.is_true).order_by(VERDICTS.c.at, VERDICTS.c.by)
        notes = sa.select(NOTES.c.incident, NOTES.c.text).where(NOTES.c.text.icontains(FALSE))
        with self.store.reading() as connection:
            judged = {one.incident: one.is_true for one in connection.execute(verdicts)}
            noted = {one.incident for one in connection.execute(notes) if _begins_with_false(one.text)}
        return frozenset({one for one, is_true in judged.items() if not is_true} | noted - judged.keys())


def _begins_with_false(note: str) -> bool:
    return note.strip().lower().split(maxsplit=1)[:1] in ([FALSE], [f"{FALSE}:"], [f"{FALSE},"])
