"""Each receiver is told once per change: after restarts, while it is away, and under silences."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pipelines.notify.deliver import deliver
from pipelines.notify.page import Page
from pipelines.notify.settings import NotifySettings
from pipelines.operations_store import OperationsStore
from tests.pipelines.notify.test_page import T0, incident

SETTINGS = NotifySettings()
FIRING = incident()
OVER = replace(FIRING, state="resolved", ends_at=T0 + timedelta(seconds=60))


@dataclass
class Pager:
    resends: bool = False
    name: str = "pager"
    away: bool = False
    told: list[str] = field(default_factory=list)

    def tell(self, page: Page, now: datetime) -> str | None:
        if self.away:
            return "connection refused"
        self.told.append("end" if page.ends_at else "begin")
        return None


@pytest.fixture
def store() -> Iterator[OperationsStore]:
    opened = OperationsStore.open(":memory:")
    yield opened
    opened.close()


def play(store: OperationsStore, pager: Pager, *steps: Any) -> list[str]:
    for seconds, stands in steps:
        now = T0 + timedelta(seconds=seconds)
        if stands is not None:
            store.upsert_incidents([stands], now)
        deliver(store, [pager], SETTINGS, now)
    return pager.told


def test_begin_and_end_are_told_once(store: OperationsStore) -> None:
    assert play(store, Pager(), (3, FIRING), (4, FIRING), (61, OVER), (62, OVER), (7200, None)) == ["begin", "end"]


def test_an_end_is_told_however_long_after_the_begin(store: OperationsStore) -> None:
    assert play(store, Pager(), (3, FIRING), (90000, OVER)) == ["begin", "end"]


def test_an_incident_that_grows_is_told_again_and_one_with_new_evidence_is_not(store: OperationsStore) -> None:
    more = replace(FIRING, evidence=(*FIRING.evidence, {"detector": "gpu.absent"}))
    grown = replace(FIRING, members=("n00001/3", "n00001/4"))
    assert play(store, Pager(), (3, FIRING), (4, more), (5, grown), (6, grown)) == ["begin", "begin"]


def test_a_receiver_that_is_away_is_told_when_it_is_back(store: OperationsStore) -> None:
    pager = Pager(away=True)
    assert play(store, pager, (3, FIRING), (4, FIRING)) == []
    pager.away = False
    assert play(store, pager, (5, FIRING)) == ["begin"]


def test_one_that_begins_and_ends_while_the_receiver_is_away_is_not_told(store: OperationsStore) -> None:
    pager = Pager(away=True)
    play(store, pager, (3, FIRING), (61, OVER))
    pager.away = False
    assert play(store, pager, (62, None)) == []


def test_a_silence_keeps_what_begins_quiet_and_not_the_end_of_what_is_known(store: OperationsStore) -> None:
    store.silence([("cause", FIRING.cause)], T0, T0 + timedelta(seconds=50), "ann", "known")
    assert play(store, Pager(), (3, FIRING), (40, FIRING), (50, FIRING)) == ["begin"]
    store.silence([("cause", FIRING.cause)], T0, T0 + timedelta(seconds=500), "ann", "known")
    assert play(store, Pager(), (61, OVER)) == ["end"]


@pytest.mark.parametrize("changes", [{"state": "suspect"}, {"severity": "info"}])
def test_a_suspicion_and_mere_information_wake_nobody(store: OperationsStore, changes: dict[str, Any]) -> None:
    assert play(store, Pager(), (3, replace(FIRING, **changes))) == []


def test_history_is_not_told(store: OperationsStore) -> None:
    assert play(store, Pager(), (3603, FIRING)) == []


def test_a_receiver_that_forgets_is_told_again_each_minute_until_the_end(store: OperationsStore) -> None:
    steps = [(seconds, FIRING) for seconds in (3, 33, 63, 93, 123)]
    told = play(store, Pager(resends=True), *steps, (130, OVER), (200, OVER), (260, OVER))
    assert told == ["begin", "begin", "begin", "end"]


def test_a_receiver_in_trouble_does_not_keep_another_from_being_told(store: OperationsStore) -> None:
    store.upsert_incidents([FIRING], T0)
    broken, fine = Pager(name="broken", away=True), Pager()
    done = deliver(store, [broken, fine], SETTINGS, datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC))
    assert (done.told, done.troubles) == (1, ("broken: connection refused",))
