"""Each receiver is told once per change: after restarts, while it is away, and under silences."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Any

import pytest

from pipelines.cli import notify as module
from pipelines.notify.deliver import deliver
from pipelines.notify.page import Page, page_of
from pipelines.notify.receivers import PageRefused, Webhook
from pipelines.notify.settings import NotifySettings
from pipelines.operations_store import OperationsStore
from pipelines.recovery.ledger import Ledger
from pipelines.signed_post import Reply, SignedPost
from tests.pipelines.notify.test_page import T0, action, incident

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


def test_a_page_lists_actions_in_the_order_in_which_they_were_planned(store: OperationsStore) -> None:
    kinds = ("raise_flow", "cap_power", "open_ticket")
    each = [(kind, action("done", kind)) for kind in kinds]
    planned = [replace(one, request=replace(one.request, id=f"act-{kind}")) for kind, one in each]
    store.upsert_incidents([FIRING], T0)
    Ledger(store).enter_new(planned)
    pages: list[str] = []
    keeping = type("Keeping", (Pager,), {"tell": lambda _, page, __: pages.append(page.text)})
    deliver(store, [keeping()], SETTINGS, T0)
    assert [pages[0].index(kind) for kind in kinds] == sorted(pages[0].index(kind) for kind in kinds)


def test_a_receiver_that_is_away_is_told_when_it_is_back(store: OperationsStore) -> None:
    pager = Pager(away=True)
    assert play(store, pager, (3, FIRING), (4, FIRING)) == []
    pager.away = False
    assert play(store, pager, (5, FIRING)) == ["begin"]


def test_a_receiver_that_was_away_for_hours_is_told_of_what_still_lasts(store: OperationsStore) -> None:
    also = replace(FIRING, id="inc-2")
    pager = Pager(away=True)
    store.upsert_incidents([also], T0)
    play(store, pager, (3, FIRING))
    pager.away = False
    assert play(store, pager, (7200, None), (7201, None), (7202, OVER)) == ["begin", "begin", "end"]


def test_what_telemetry_of_now_shows_to_last_is_told_though_nobody_watched_when_it_began(
    store: OperationsStore,
) -> None:
    pager, now = Pager(), T0 + timedelta(hours=2)
    store.upsert_incidents([FIRING, replace(FIRING, id="inc-history")], now)
    for _ in range(2):
        deliver(store, [pager], SETTINGS, now, lasting_now={FIRING.id})
    assert pager.told == ["begin"]


def test_one_that_begins_and_ends_while_the_receiver_is_away_is_not_told(store: OperationsStore) -> None:
    pager = Pager(away=True)
    play(store, pager, (3, FIRING), (61, OVER))
    pager.away = False
    assert play(store, pager, (62, None)) == []


def test_one_that_comes_back_after_its_end_was_told_is_told_again_however_old_it_is(store: OperationsStore) -> None:
    again = replace(FIRING, flaps=1)
    told = play(store, Pager(), (3, FIRING), (7000, OVER), (7200, again), (7201, again), (7300, OVER))
    assert told == ["begin", "end", "begin", "end"]


def test_a_silence_keeps_what_begins_quiet_and_not_the_end_of_what_is_known(store: OperationsStore) -> None:
    store.silence([("cause", FIRING.cause)], T0, T0 + timedelta(seconds=50), "ann", "known")
    assert play(store, Pager(), (3, FIRING), (40, FIRING), (50, FIRING)) == ["begin"]
    store.silence([("cause", FIRING.cause)], T0, T0 + timedelta(seconds=500), "ann", "known")
    assert play(store, Pager(), (61, OVER)) == ["end"]


def test_a_silence_keeps_quiet_what_comes_back_until_it_ends(store: OperationsStore) -> None:
    pager = Pager()
    play(store, pager, (3, FIRING), (61, OVER))
    store.silence([("cause", FIRING.cause)], T0, T0 + timedelta(seconds=120), "ann", "known")
    assert play(store, pager, (100, FIRING)) == ["begin", "end"]
    assert play(store, pager, (121, FIRING)) == ["begin", "end", "begin"]


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


def test_a_page_that_a_receiver_refuses_does_not_keep_it_from_being_told_of_the_others(store: OperationsStore) -> None:
    class Picky(Pager):
        def tell(self, page: Page, now: datetime) -> str | None:
            return PageRefused("400 too long") if page.incident == "inc-1" else super().tell(page, now)

    store.upsert_incidents([FIRING, replace(FIRING, id="inc-0"), replace(FIRING, id="inc-2")], T0)
    done = deliver(store, [Picky()], SETTINGS, T0 + timedelta(seconds=5))
    assert (done.told, done.troubles) == (2, ("pager: 400 too long",))


def test_what_is_said_later_of_an_incident_has_a_key_of_its_own_and_a_repetition_has_not() -> None:
    keys: list[str] = []

    class Post(SignedPost):
        def send(self, body: bytes, key: str) -> Reply:
            keys.append(key)
            return Reply("unknown", f"no answer to {len(body)} bytes")

    grown = replace(FIRING, members=("n00001/3", "n00001/4"))
    for stands in (FIRING, FIRING, grown, OVER):
        Webhook(Post(url="http://pages.test")).tell(page_of(stands, [], "runbooks"), T0)
    assert len(set(keys)) == 3
    assert keys[0] == keys[1]


@pytest.mark.parametrize(("status", "is_page"), [(400, True), (413, True), (401, False), (429, False), (500, False)])
def test_only_an_answer_about_the_page_itself_is_a_refusal_of_it(status: int, is_page: bool) -> None:  # noqa: FBT001
    class Post(SignedPost):
        def send(self, body: bytes, key: str) -> Reply:
            return Reply("refused", f"{status} to {key}, {len(body)} bytes", status=status)

    trouble = Webhook(Post(url="http://pages.test")).tell(page_of(FIRING, [], "runbooks"), T0)
    assert isinstance(trouble, PageRefused) == is_page


def test_a_bug_at_one_page_is_not_the_end_of_all_pages(store: OperationsStore, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[int] = []
    stopping = Event()

    def failing(*_: Any) -> None:
        rounds.append(1)
        if len(rounds) == 2:
            stopping.set()
        raise RuntimeError("a bug")

    monkeypatch.setattr(module, "deliver", failing)
    monkeypatch.setattr(module, "ROUND_SECONDS", 0.0)
    module.keep_telling(store, [Pager()], SETTINGS, stopping, frozenset)
    assert len(rounds) == 2
