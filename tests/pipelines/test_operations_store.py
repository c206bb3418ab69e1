from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from pipelines.operations_records import NotFound
from pipelines.operations_store import OperationsStore
from schemas.incident import Incident
from tests.pipelines.postgresql import postgresql_store

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOSTILE = 'n1\'; drop table incidents; --\n$(reboot) `id` "x" \\ % _ \u202e'


def later(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def made(number: int = 0, **changes: Any) -> Incident:
    values: dict[str, Any] = {
        "id": f"inc-{number:010x}", "cause": "link_flap", "severity": "page", "state": "firing", "root_kind": "link",
        "roots": ("cable-1",), "members": ("n00001/3",), "symptoms": (("job", "train"),), "starts_at": T0,
        "detected_at": later(number), "ends_at": None, "evidence": ({"flaps": 3},),
    }  # fmt: skip
    return Incident(**{**values, **changes})


def sqlite_url(path: Path) -> str:
    return str(path / "var" / "operations.sqlite")


@pytest.fixture(params=["sqlite", "memory", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OperationsStore]:
    if request.param == "postgresql":
        with postgresql_store() as opened:
            yield opened
        return
    opened = OperationsStore.open(":memory:" if request.param == "memory" else sqlite_url(tmp_path))
    yield opened
    opened.close()


def test_an_incident_comes_back_as_it_was_written(store: OperationsStore) -> None:
    written = made(roots=(HOSTILE,), members=(HOSTILE, "n2/0"), symptoms=(("node", HOSTILE),), ends_at=later(60.000001))
    store.upsert_incidents([written], T0)
    assert store.incident(written.id) == written


def test_writing_the_same_incident_twice_leaves_one(store: OperationsStore) -> None:
    store.upsert_incidents([made()], T0)
    store.upsert_incidents([made()], T0)
    assert store.incidents() == (made(),)


def test_a_newer_step_overwrites_and_an_older_one_does_not(store: OperationsStore) -> None:
    store.upsert_incidents([made(members=("b",))], later(2))
    store.upsert_incidents([made(members=("a",))], later(1))
    assert store.incident(made().id).members == ("b",)
    store.upsert_incidents([made(members=("c",))], later(3))
    assert store.incident(made().id).members == ("c",)


@pytest.mark.parametrize("state", ["acknowledged", "mitigating"])
def test_a_state_set_by_a_person_survives_the_engine_until_resolved(store: OperationsStore, state: Any) -> None:
    store.upsert_incidents([made()], T0)
    store.acknowledge(made().id, "ann", "on it", later(1), state=state)
    store.upsert_incidents([made(members=("a", "b"))], later(2))
    assert store.incident(made().id).state == state
    assert store.incident(made().id).members == ("a", "b")
    store.upsert_incidents([made(state="resolved", ends_at=later(3))], later(3))
    assert store.incident(made().id).state == "resolved"


def test_a_resolved_incident_is_not_reopened_by_an_acknowledgement(store: OperationsStore) -> None:
    store.upsert_incidents([made(state="resolved")], T0)
    assert store.acknowledge(made().id, "ann", "seen", later(1)).state == "resolved"


def test_an_acknowledgement_does_not_undo_mitigating(store: OperationsStore) -> None:
    store.upsert_incidents([made()], T0)
    store.acknowledge(made().id, "ann", "", later(1), state="mitigating")
    assert store.acknowledge(made().id, "bob", "", later(2)).state == "mitigating"


def test_filters_and_order_of_the_list(store: OperationsStore) -> None:
    store.upsert_incidents([made(1), made(2, cause="node_lost"), made(3, state="resolved")], T0)
    assert [found.id[-1] for found in store.incidents()] == ["3", "2", "1"]
    assert [found.id[-1] for found in store.incidents(states=["firing"])] == ["2", "1"]
    assert [found.id[-1] for found in store.incidents(causes=["node_lost"])] == ["2"]
    assert [found.id[-1] for found in store.incidents(since=later(2))] == ["3", "2"]
    assert [found.id[-1] for found in store.incidents(limit=1)] == ["3"]


@pytest.mark.parametrize("states", [None, ("firing",), ("firing", "suspect"), ("firing", "resolved", "resolved")])
@pytest.mark.parametrize("causes", [None, ("node_lost",), ("node_lost", "link_flap"), ()])
def test_the_newest_of_several_states_and_causes(store: OperationsStore, states: Any, causes: Any) -> None:
    every = [
        made(number, cause=("node_lost", "link_flap", "gpu_hang")[number % 3], state=("firing", "resolved")[number % 2],
             detected_at=later(number // 4))
        for number in range(40)
    ]  # fmt: skip
    store.upsert_incidents(every, T0)
    chosen = [one for one in every if states is None or one.state in states]
    chosen = [one for one in chosen if (causes is None or one.cause in causes) and one.detected_at >= later(3)]
    newest = sorted(chosen, key=lambda one: (-one.detected_at.timestamp(), one.id))
    assert store.incidents(states=states, causes=causes, since=later(3), limit=7) == tuple(newest[:7])


def test_an_incident_is_found_by_a_unique_beginning(store: OperationsStore) -> None:
    store.upsert_incidents([made(0, id="inc-ab12"), made(1, id="inc-ac12"), made(2, id="inc-ac")], T0)
    assert store.incident("ab").id == "inc-ab12"
    assert store.incident("inc-ac1").id == "inc-ac12"
    assert store.incident("inc-ac").id == "inc-ac"  # the whole id wins over being a beginning


@pytest.mark.parametrize("name", ["", "inc-", "a", "zz", "%", "a_", HOSTILE])
def test_no_or_several_incidents_is_not_found(store: OperationsStore, name: str) -> None:
    store.upsert_incidents([made(0, id="inc-ab12"), made(1, id="inc-ac12")], T0)
    with pytest.raises(NotFound):
        store.incident(name)


def test_remarks_are_in_order_of_time_and_written_once(store: OperationsStore) -> None:
    store.upsert_incidents([made()], T0)
    for _ in range(2):
        store.note(made().id, "bob", HOSTILE, later(2))
        store.acknowledge(made().id, " ann ", "mine", later(1))
    remarks = store.remarks(made().id)
    assert [(said.at, said.by, said.kind, said.text) for said in remarks] == [
        (later(1), "ann", "acknowledged", "mine"),
        (later(2), "bob", "note", HOSTILE),
    ]


def test_nobody_cannot_acknowledge(store: OperationsStore) -> None:
    store.upsert_incidents([made()], T0)
    with pytest.raises(ValueError, match="say who"):
        store.acknowledge(made().id, "  ", "", T0)


def test_a_time_without_a_zone_is_refused(store: OperationsStore) -> None:
    with pytest.raises(sa.exc.StatementError, match="has no time zone"):
        store.upsert_incidents([made(starts_at=datetime(2026, 3, 1))], T0)  # noqa: DTZ001 - what is refused


def test_a_silence_holds_from_its_start_up_to_its_end(store: OperationsStore) -> None:
    silence = store.silence([("cause", "link_flap"), ("root", "cable-1")], later(10), later(20), "ann", "recabling")
    active = [store.silences(later(at)) for at in (9.999999, 10, 19.999999, 20)]
    assert active == [(), (silence,), (silence,), ()]
    assert silence.mutes(made())
    assert not silence.mutes(made(roots=("cable-2",)))


def test_a_silence_can_end_early_once(store: OperationsStore) -> None:
    silence = store.silence([("cause", "link_flap")], T0, later(20), "ann", "")
    store.end_silence(silence.id, later(5))
    assert store.silences(later(6)) == ()
    with pytest.raises(NotFound):
        store.end_silence(silence.id, later(6))


@pytest.mark.parametrize("matchers", [[], [("colour", "red")]])
def test_a_silence_must_match_on_something_known(store: OperationsStore, matchers: list[tuple[str, str]]) -> None:
    with pytest.raises(ValueError, match="silence"):
        store.silence(matchers, T0, later(1), "ann", "")


def test_the_breaker_stays_tripped_until_a_person_resets_it(store: OperationsStore) -> None:
    assert not store.breaker().tripped
    store.trip_breaker("half of the nodes", later(10))
    store.trip_breaker("again", later(11))
    assert (store.breaker().tripped, store.breaker().reason) == (True, "half of the nodes")
    for by, reason in (("", "fixed"), ("ann", " ")):
        with pytest.raises(ValueError):
            store.reset_breaker(by, reason, later(12))
    assert store.breaker().tripped
    store.reset_breaker("ann", "bad detector", later(12))
    assert (store.breaker().tripped, store.breaker().by) == (False, "ann")


def test_a_trip_by_a_clock_behind_the_reset_still_trips(store: OperationsStore) -> None:
    store.trip_breaker("first", later(1))
    store.reset_breaker("ann", "looked", later(100))
    store.trip_breaker("second", later(50))
    assert store.breaker().tripped


def test_a_lease_has_one_holder_until_it_runs_out(store: OperationsStore) -> None:
    assert store.acquire_lease("ingest", "a", T0, 10).holder == "a"
    assert store.acquire_lease("ingest", "b", later(9.9), 10).holder == "a"
    assert store.renew_lease("ingest", "a", later(9.9), 10)
    assert not store.renew_lease("ingest", "b", later(9.9), 10)
    assert store.acquire_lease("ingest", "b", later(19.9), 10).holder == "b"
    assert not store.renew_lease("ingest", "a", later(20), 10)
    store.release_lease("ingest", "a")
    assert store.acquire_lease("ingest", "c", later(21), 10).holder == "b"
    store.release_lease("ingest", "b")
    assert store.acquire_lease("ingest", "c", later(21), 10).holder == "c"


def test_spares_are_taken_all_or_none_and_once_per_action(store: OperationsStore) -> None:
    store.add_spares(["n1", "n2", "n3"], T0)
    assert store.allocate_spares("act-1", ["n3", "n9", "n1", "n2"], 2, later(1)) == ("n3", "n1")
    assert store.allocate_spares("act-2", ["n1", "n2", "n3"], 2, later(2)) == ()
    assert set(store.allocate_spares("act-1", ["n2"], 2, later(3))) == {"n1", "n3"}
    store.add_spares(["n1"], later(4))
    store.put_spare("n3", "available", later(5))
    assert store.allocate_spares("act-2", ["n2", "n3"], 2, later(6)) == ("n2", "n3")


def test_an_exception_inside_a_transaction_undoes_all_of_it(store: OperationsStore) -> None:
    def half_done() -> None:
        with store.writing():
            store.upsert_incidents([made()], T0)
            store.trip_breaker("x", T0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half_done()
    assert store.incidents() == ()
    assert not store.breaker().tripped
