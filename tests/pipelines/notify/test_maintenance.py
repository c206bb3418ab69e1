"""Maintenance windows: what they cover pages nobody and is left alone by automation; what lasts after them is told."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, get_args

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.notify.deliver import deliver
from pipelines.notify.page import Page
from pipelines.notify.settings import NotifySettings
from pipelines.operations_holds import Holds, covered
from pipelines.operations_store import OperationsStore
from pipelines.recovery.executors.contract import ActionOutcome
from pipelines.recovery.recover import recover
from pipelines.recovery.settings import RecoverySettings
from schemas.action import ActionKind, ActionRequest
from schemas.topology import topology_from_frames
from tests.pipelines.notify.test_page import T0, incident

NODES = [
    {"node": f"n{i}", "superblock": "sb-0", "pod": "pod-0", "pdu": f"pdu-{i // 2}", "cdu": "cdu-0"} for i in range(8)
]
LINKS = [
    {"cable": f"c{i}", "a": f"n{i}/hca0", "a_port": 1, "b": f"leaf-{i // 4}", "b_port": i, "tier": "node-leaf"}
    for i in range(8)
]
TOPOLOGY = topology_from_frames("works", pl.DataFrame(NODES), pl.DataFrame(LINKS))
RECOVERY = RecoverySettings(mode="enforce", approvals={}, breaker_share=1.0, cooldown_seconds=0)
EXPIRES_SECONDS = 360  # pages of incidents older than this are told only where something had kept them quiet
FAULTS = {"n1": "node_lost", "n1/3": "gpu_fatal_error", "c1": "link_flap", "pdu-0": "power_domain_lost"}
STEP = 120
KINDS: dict[str, Any] = {"n1": "node", "n1/3": "gpu", "c1": "link", "pdu-0": "pdu"}
# Which windows take the root of each fault with them, by the wiring above.
COVERS = {
    ("node", "n1"): {"n1", "n1/3", "c1"}, ("pdu", "pdu-0"): {"n1", "n1/3", "c1", "pdu-0"},
    ("pod", "pod-0"): {"n1", "n1/3", "c1", "pdu-0"}, ("switch", "leaf-0"): {"c1"}, ("node", "n5"): set(),
    ("pdu", "pdu-3"): set(),
}  # fmt: skip


@dataclass
class Witness:
    """A pager and an executor; remembers at which second something was asked of it."""

    name: str = "pager"
    resends: bool = False
    second: int = 0
    paged: list[int] = field(default_factory=list)
    acted: list[int] = field(default_factory=list)

    def tell(self, page: Page, now: datetime) -> str | None:
        if page.ends_at is None:
            self.paged.append(self.second)
        return None

    def apply(self, request: ActionRequest) -> ActionOutcome:
        if request.kind != "open_ticket":
            self.acted.append(self.second)
        return ActionOutcome(done=True)

    def outcome_of(self, request_id: str) -> None:
        return None


def at(second: int) -> datetime:
    return T0 + timedelta(seconds=second)


def announced(kind: str, entity: str, begins: int, ends: int | None, told: int = -100) -> pl.DataFrame:
    row = {
        "announced_at": at(told), "starts_at": at(begins), "ends_at": None if ends is None else at(ends), "kind": kind,
        "id": entity, "reason": "works",
    }  # fmt: skip
    return pl.DataFrame([row], schema_overrides={"ends_at": pl.Datetime("us", "UTC")})


def play(root: str, begins: int, until: int, *windows: pl.DataFrame) -> Witness:
    """A fault from `begins` on, looked at every two minutes."""
    store, witness = OperationsStore.open(":memory:"), Witness()
    for window in windows:
        Holds(store).announce(window, TOPOLOGY)
    one = incident(
        id="inc-1",
        cause=FAULTS[root],
        root_kind=KINDS[root],
        roots=(root,),
        detected_at=at(begins),
        starts_at=at(begins),
    )
    for second in range(begins, until, STEP):
        witness.second = second
        store.upsert_incidents([one], at(second))
        recover([one], TOPOLOGY, store, RECOVERY, dict.fromkeys(get_args(ActionKind), witness), at(second))
        deliver(store, [witness], NotifySettings(old_seconds=EXPIRES_SECONDS), at(second))
    store.close()
    return witness


@settings(max_examples=20, deadline=None)
@given(
    root=st.sampled_from(sorted(FAULTS)), window=st.sampled_from(sorted(COVERS)), first=st.integers(-2, 4),
    length=st.integers(1, 6), begins=st.integers(0, 4),
)  # fmt: skip
def test_nothing_is_paged_or_done_in_a_window_that_covers_it_and_what_still_lasts_is_told_after_it(
    root: str, window: tuple[str, str], first: int, length: int, begins: int
) -> None:
    first, last, begins = STEP * first, STEP * (first + length), STEP * begins
    until = max(last, begins) + 2 * STEP
    seen = play(root, begins, until, announced(*window, first, last))
    quiet = range(first, last) if root in COVERS[window] else range(0)
    assert [second for second in (*seen.paged, *seen.acted) if second in quiet] == []
    assert seen.paged == [last if begins in quiet else begins]  # once, and as soon as it may be
    if begins not in quiet:
        assert min(seen.acted) == begins


def test_a_window_without_an_end_lasts_until_one_is_announced() -> None:
    open_ended, ended = announced("node", "n1", 0, None), announced("node", "n1", 0, STEP, told=10)
    assert play("n1", 0, 3 * STEP, open_ended).paged == []
    assert play("n1", 0, 3 * STEP, open_ended, ended).paged == [STEP]


@pytest.mark.parametrize("read", [(0, 1), (1, 0)])
@pytest.mark.parametrize(("second", "ends"), [(STEP, STEP), (3 * STEP, 3 * STEP), (0, 0)])
def test_what_is_announced_last_holds_in_whatever_order_it_is_read(
    read: tuple[int, int], second: int, ends: int
) -> None:
    told = (announced("node", "n1", 0, 2 * STEP), announced("node", "n1", 0, second, told=-50))
    assert play("n1", 0, 5 * STEP, *(told[number] for number in read)).paged == [ends]


def test_an_end_announced_long_after_it_brings_the_page_that_nobody_could_get() -> None:
    store, witness = OperationsStore.open(":memory:"), Witness()
    store.upsert_incidents(
        [incident(id="inc-1", cause="node_lost", root_kind="node", roots=("n1",), detected_at=at(0))], at(0)
    )
    for second, ends in ((1, None), (4 * EXPIRES_SECONDS, 60)):
        Holds(store).announce(announced("node", "n1", 0, ends, told=second), TOPOLOGY)
        witness.second = second
        deliver(store, [witness], NotifySettings(old_seconds=EXPIRES_SECONDS), at(second))
    store.close()
    assert witness.paged == [4 * EXPIRES_SECONDS]


def test_releasing_a_window_frees_all_that_it_covers_and_its_being_told_again_holds_nothing() -> None:
    store, window = OperationsStore.open(":memory:"), announced("pdu", "pdu-0", 0, 3600)
    Holds(store).announce(window, TOPOLOGY)
    assert {one.target for one in Holds(store).in_force(at(10))} == {"pdu-0", "n0", "n1", "c0", "c1"}
    assert Holds(store).release("pdu-0", at(20)) == 5
    Holds(store).announce(window, TOPOLOGY)
    assert Holds(store).in_force(at(30)) == ()
    store.close()


def test_an_incident_that_is_only_partly_under_a_window_is_told() -> None:
    store, witness = OperationsStore.open(":memory:"), Witness()
    Holds(store).announce(announced("node", "n1", 0, 60), TOPOLOGY)
    both = incident(id="inc-2", cause="node_lost", root_kind="node", roots=("n1", "n5"), detected_at=at(0))
    store.upsert_incidents([both, replace(both, id="inc-3", roots=("n1",))], at(0))
    deliver(store, [witness], NotifySettings(), at(1))
    store.close()
    assert len(witness.paged) == 1


@pytest.mark.parametrize("window", sorted(COVERS))
def test_a_window_covers_the_nodes_and_links_that_go_with_its_entity(window: tuple[str, str]) -> None:
    nodes = {root for root in COVERS[window] if "/" not in root}
    assert {"n1", "c1", "pdu-0"} & set(covered(*window, TOPOLOGY)) == nodes
