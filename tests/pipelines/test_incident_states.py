"""What engine and people make of an incident's state together, and which incidents a silence keeps quiet."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.operations_store import OperationsStore
from schemas.incident import Incident

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)


def made(name: str, state: Any = "firing") -> Incident:
    return Incident(
        id=name, cause="link_flap", severity="page", state=state, root_kind="link", roots=("c1", "c2"),
        members=("n1/3", "n2/0"), symptoms=(), starts_at=T0, detected_at=T0, ends_at=None, evidence=(),
    )  # fmt: skip


# What the engine says next, by what it said last.
ENGINE = {"suspect": ("suspect", "firing", "resolved"), "firing": ("firing", "resolved"), "resolved": ("firing",)}
FORWARD = ("suspect", "firing", "acknowledged", "mitigating", "resolved")


@settings(max_examples=25)
@given(data=st.data(), words=st.lists(st.sampled_from(("engine", "engine", "acknowledged", "mitigating")), max_size=12))
def test_an_incident_goes_forward_through_its_states_until_the_engine_says_that_it_is_back(
    data: st.DataObject, words: list[Any]
) -> None:
    store = OperationsStore.open(":memory:")
    name = "inc-1"
    said = "suspect"
    store.upsert_incidents([made(name, said)], T0)
    for second, word in enumerate(words, start=1):
        before, at = store.incident(name).state, T0 + timedelta(seconds=second)
        if word == "engine":
            was, said = said, data.draw(st.sampled_from(ENGINE[said]))
            store.upsert_incidents([made(name, said)], at)
            back = was == "resolved" and said == "firing"
        else:
            back = False
            store.acknowledge(name, "anna", "", at, state=word)
        after = store.incident(name).state
        if back:
            assert (before, after) == ("resolved", "firing")
        else:
            assert FORWARD.index(after) >= FORWARD.index(before)
        assert (after == "resolved") == (said == "resolved")
    store.close()


TRUE_OF_IT = (
    ("cause", "link_flap"), ("severity", "page"), ("root_kind", "link"), ("root", "c1"), ("root", "c2"),
    ("member", "n1/3"),
)  # fmt: skip
FALSE_OF_IT = (("cause", "link_down"), ("root", "c"), ("member", "n1/30"), ("severity", "ticket"), ("root", "c1,c2"))


@settings(max_examples=25)
@given(
    right=st.lists(st.sampled_from(TRUE_OF_IT), min_size=1, max_size=3, unique=True),
    wrong=st.lists(st.sampled_from(FALSE_OF_IT), max_size=1),
    window=st.tuples(st.integers(0, 2), st.integers(1, 6)),
    asked=st.integers(0, 8),
    lifted=st.none() | st.integers(0, 8),
)
def test_a_silence_keeps_quiet_what_all_its_matchers_fit_from_its_start_up_to_its_end(
    right: list[tuple[str, str]],
    wrong: list[tuple[str, str]],
    window: tuple[int, int],
    asked: int,
    lifted: int | None,
) -> None:
    begins, lasts = window
    store = OperationsStore.open(":memory:")
    moment = [T0 + timedelta(seconds=second) for second in range(9)]
    silence = store.silence([*right, *wrong], moment[begins], moment[begins + lasts], "anna", "cable work")
    ends = begins + lasts
    if lifted is not None and begins <= lifted < ends:
        store.end_silence(silence.id, moment[lifted])
        ends = lifted
    quiet = any(one.mutes(made("inc-1")) for one in store.silences(moment[asked]))
    assert quiet == (not wrong and begins <= asked < ends)
    assert all((one.by, one.comment) == ("anna", "cable work") for one in store.silences(moment[asked]))
    store.close()
