"""Holds, rosters of jobs, and a store of the first version that gets them."""

import sqlite3
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import sqlalchemy as sa
from rich.console import Console

from pipelines.cli.output import console, table
from pipelines.operations_holds import Holds
from pipelines.operations_jobs import Jobs
from pipelines.operations_migrations import MIGRATIONS
from pipelines.operations_people import SAID_MAXIMUM
from pipelines.operations_records import NotFound
from pipelines.operations_store import OperationsStore
from pipelines.operations_verdicts import Verdicts
from pipelines.recovery.ledger import Ledger
from schemas.action import ActionRecord, ActionRequest
from tests.pipelines.test_operations_store import made

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)


def later(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


@pytest.fixture
def store() -> Any:
    opened = OperationsStore.open(":memory:")
    yield opened
    opened.close()


def events(*rows: tuple[float, str, list[str] | None]) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {"time": later(at), "job": "train", "kind": kind, "members": members, "checkpoint_interval_seconds": 300.0}
            for at, kind, members in rows
        ],
        schema_overrides={"members": pl.List(pl.String)},
    )


def test_a_job_is_where_it_last_said_whatever_the_order_of_arrival(store: OperationsStore) -> None:
    jobs = Jobs(store)
    jobs.remember(events((10, "start", ["n1/0", "n1/1", "n2/0"]), (20, "checkpoint", None)))
    jobs.remember(events((5, "start", ["n9/0"])))  # late
    assert jobs.running()["train"].nodes == {"n1", "n2"}
    assert jobs.running()["train"].checkpoint_interval_seconds == 300
    jobs.remember(events((30, "restart", ["n1/0", "n3/0"])))
    assert jobs.running()["train"].nodes == {"n1", "n3"}
    jobs.remember(events((40, "stop", None)))
    assert jobs.running() == {}


def test_a_hold_lasts_from_its_start_up_to_its_end_or_its_release(store: OperationsStore) -> None:
    holds = Holds(store)
    holds.hold("n1", T0, later(60), "ann", "hands inside")
    assert [len(holds.in_force(later(at))) for at in (-1, 0, 59, 60)] == [0, 1, 1, 0]
    assert holds.release("n1", later(30)) == 1
    assert holds.in_force(later(30)) == ()
    with pytest.raises(NotFound):
        holds.release("n1", later(31))


@pytest.mark.parametrize(("target", "by", "seconds"), [("n1", " ", 60), ("", "ann", 60), ("n1", "ann", 0)])
def test_a_hold_needs_a_person_a_target_and_a_time(store: OperationsStore, target: str, by: str, seconds: int) -> None:
    with pytest.raises(ValueError, match=r"hold|who"):
        Holds(store).hold(target, T0, later(seconds), by, "")


def test_the_last_verdict_on_an_incident_holds_and_stands_among_what_people_said(store: OperationsStore) -> None:
    store.upsert_incidents([made(0), made(1)], T0)
    one, other = made(0).id, made(1).id
    verdicts = Verdicts(store)
    verdicts.judge(one, "ann", "a planned pull", later(1), is_true=False)
    verdicts.judge(other, "ann", "", later(1), is_true=False)
    assert verdicts.judge(other, "bob", "the pump was bad", later(2), is_true=True) == made(1)
    assert verdicts.false() == {one}
    assert [(said.by, said.kind, said.text) for said in store.remarks(one)] == [
        ("ann", "judged false", "a planned pull")
    ]
    assert [said.kind for said in store.remarks(other)] == ["judged false", "judged true"]


def test_a_verdict_is_worth_more_than_a_note_that_begins_with_false(store: OperationsStore) -> None:
    store.upsert_incidents([made(0), made(1)], T0)
    for number in (0, 1):
        store.note(made(number).id, "ann", "False: a planned pull", T0)
    Verdicts(store).judge(made(1).id, "bob", "", later(1), is_true=True)
    assert Verdicts(store).false() == {made(0).id}


def test_nobody_judges_and_nothing_that_is_not_there_is_judged(store: OperationsStore) -> None:
    store.upsert_incidents([made()], T0)
    with pytest.raises(ValueError, match="say who"):
        Verdicts(store).judge(made().id, " ", "", T0, is_true=True)
    with pytest.raises(NotFound):
        Verdicts(store).judge("inc-9", "ann", "", T0, is_true=True)


TOO_LONG = "x" * (SAID_MAXIMUM + 1)


@pytest.mark.parametrize(
    "say",
    [
        lambda store, text: store.acknowledge(made().id, "ann", text, T0),
        lambda store, text: store.note(made().id, "ann", text, T0),
        lambda store, text: Verdicts(store).judge(made().id, "ann", text, T0, is_true=True),
        lambda store, text: store.silence([("cause", "link_flap")], T0, later(1), "ann", text),
        lambda store, text: Holds(store).hold("n00001", T0, later(1), "ann", text),
        lambda store, text: store.reset_breaker("ann", text, T0),
        lambda store, text: Ledger(store).answer("act-1", "ann", text, T0, verdict="approved"),
        lambda store, text: Ledger(store).cancel("act-1", "ann", text, T0),
    ],
)
def test_what_a_person_says_fits_on_a_screen(store: OperationsStore, say: Any) -> None:
    store.upsert_incidents([made()], T0)
    store.trip_breaker("too many nodes", T0)
    with pytest.raises(ValueError, match="a comment of 2,001 characters: at most 2,000"):
        say(store, TOO_LONG)
    with suppress(NotFound):  # there is no action to speak of
        say(store, TOO_LONG[1:])


def test_what_was_said_before_there_was_a_limit_is_cut_on_the_screen_only() -> None:
    screen = Console(file=StringIO(), width=80)
    screen.print(
        table("What people said", ("by", "text"), [("ann", TOO_LONG[1:]), ("bob", TOO_LONG.replace("x", "z"))])
    )
    shown = screen.file.getvalue()  # type: ignore[attr-defined]  a StringIO
    assert (shown.count("x"), shown.count("z"), shown.count("\u2026")) == (SAID_MAXIMUM + 1, SAID_MAXIMUM - 1, 1)


def test_who_says_it_is_a_name(store: OperationsStore) -> None:
    with pytest.raises(ValueError, match="a name of 2,001 characters"):
        store.silence([("cause", "link_flap")], T0, later(1), TOO_LONG, "")


@pytest.mark.parametrize("by", ["ann\u200b", "ann\x1b[2J", "\u202enna", "ann\nbob"])
def test_nobody_is_two_people_by_letters_that_cannot_be_seen(store: OperationsStore, by: str) -> None:
    with pytest.raises(ValueError, match="letters that cannot be seen"):
        Ledger(store).answer("act-1", by, "", T0, verdict="approved")


@pytest.mark.parametrize(
    "say",
    [
        lambda store, name: Holds(store).hold(name, T0, later(1), "ann", ""),
        lambda store, name: store.silence([("root", name)], T0, later(1), "ann", ""),
    ],
)
def test_what_is_held_or_silenced_is_no_longer_than_a_name_can_be(store: OperationsStore, say: Any) -> None:
    with pytest.raises(ValueError, match="a name of 257 characters: at most 256"):
        say(store, "x" * 257)
    assert say(store, "x" * 256)


def test_no_name_or_comment_steers_the_terminal_that_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = StringIO()
    monkeypatch.setattr("sys.stdout", shown)
    hostile = "n1\x1b[2J\x1b]0;mine\x07\u202e"
    console().print(f"Root: {hostile}")
    console().print(table("Held", ("target", "why"), [(hostile, hostile)]))
    assert [letter for letter in shown.getvalue() if not letter.isprintable() and letter != "\n"] == []


def test_a_store_of_the_first_version_keeps_its_incidents_and_gets_what_came_since(tmp_path: Path) -> None:
    path = tmp_path / "o.sqlite"
    store = OperationsStore.open(path)
    store.upsert_incidents([made()], T0)
    drain = ActionRequest(
        id="act-1", incident="inc-1", kind="drain_node", target="n1", parameters={}, requested_at=T0, reason="because"
    )
    gone = replace(drain, id="act-2", target="n2")
    for request in (drain, gone):
        done = ActionRecord(request=request, mode="enforce", outcome="done", why="", at=T0)
        assert Ledger(store).enter(done, None)
    Ledger(store).record_return("n2", "ann", later(1))
    store.close()
    with sqlite3.connect(path) as old:
        for table in ("holds", "jobs", "deliveries", "verdicts"):
            old.execute(f"drop table {table}")
        for column in ("findings", "merged_into", "flaps"):
            old.execute(f"alter table incidents drop column {column}")
        old.execute("drop index actions_out")
        old.execute("alter table actions drop column is_out")
        old.execute("update schema_version set version = 1")
    old.close()
    again, fresh = OperationsStore.open(path), OperationsStore.open(tmp_path / "new.sqlite")
    assert again.incidents() == (made(),)
    assert [record.request.target for record in Ledger(again).taken_out()] == ["n1"]
    assert shape(again) == shape(fresh)
    Holds(again).hold("n1", T0, later(60), "ann", "")
    assert len(MIGRATIONS) >= 1
    again.close()
    fresh.close()


def shape(store: OperationsStore) -> dict[str, set[str]]:
    with store.reading() as connection:
        seen = sa.inspect(connection)
        return {table: {column["name"] for column in seen.get_columns(table)} for table in seen.get_table_names()}


def test_what_an_incident_counts_is_kept(store: OperationsStore) -> None:
    said = made(findings={"link_flap": 3}, merged_into="inc-0", flaps=2)
    store.upsert_incidents([said], T0)
    assert store.incident(said.id) == said
