"""Whatever way the stream is cut, and wherever the process is restarted, the incidents and the state are the same."""

from datetime import timedelta

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.contract import FINDING_COLUMNS, Context
from detectors.correlate import correlate
from detectors.correlation_state import Correlation, decode, encode
from schemas.incident import Incident
from tests.detectors.correlation_timeline import NOON, TOPOLOGY, end, finding, nodes_lost

# Few entities close to each other, so that faults meet: two PDUs, nodes with one and two feeds, their GPUs and links.
PLACES = {
    "power_domain_lost": ("pdu0", "pdu1", "pdu3"),
    "coolant_pump_failure": ("cdu0",),
    "switch_lost": ("leaf0",),
    "node_lost": ("n01", "n02", "n17", "n50", "ghost"),
    "gpu_fatal_error": ("n01/3", "n02/0"),
    "gpu_hang": ("n01/3", "n01/4", "n50/0"),
    "gpu_thermal_throttle": ("n01/3", "n17/0"),
    "link_flap": ("c01", "c17"),
    "link_down": ("c01", "c02", "up0"),
    "job_hang": ("llm",),
    "telemetry_stale": ("gpu:n01", "gpu:n02", "fabric_port:leaf0", "power:pdu0"),
}


@st.composite
def statements(draw):
    cause = draw(st.sampled_from(sorted(PLACES)))
    at = draw(st.integers(0, 180)) / 2 + draw(st.sampled_from((0, 0, 240)))
    said = {
        "onset": at - draw(st.sampled_from((0, 0.5, 3, 8))),
        "active": draw(st.sampled_from((True, True, True, False))),
        "detector": draw(st.sampled_from(("test.one", "test.other"))),
    }
    if draw(st.integers(0, 4)) == 0:
        said["severity"] = "info"
    if cause == "job_hang":
        said["evidence"] = '{"nodes": ["n01", "n50"]}'
    return finding(at, cause, draw(st.sampled_from(PLACES[cause])), **said)


cuts = st.lists(st.integers(0, 800).map(lambda half_seconds: half_seconds / 2), max_size=12)
END_SECONDS = 800


def cut(said, times, *, stored=False) -> tuple[dict[str, Incident], bytes]:
    """The last word about each incident, and the state, after steps that end at the given seconds."""
    rows = sorted(said, key=lambda row: row["time"])
    state = Correlation()
    last: dict[str, Incident] = {}
    before = NOON - timedelta(days=1)
    for time in sorted({*times, END_SECONDS}):
        now = NOON + timedelta(seconds=time)
        frame = pl.DataFrame([row for row in rows if before <= row["time"] < now], schema=FINDING_COLUMNS)
        incidents, state = correlate(frame, state, Context(now=now, began=NOON, topology=TOPOLOGY))
        state = decode(encode(state)) if stored else state
        last.update((incident.id, incident) for incident in incidents)
        before = now
    return last, encode(state)


def known(outcome: tuple[dict[str, Incident], bytes]) -> tuple[dict[str, Incident], bytes]:
    """An incident that one step opened and another folded away is not seen by who looks only once."""
    incidents, state = outcome
    return {name: incident for name, incident in incidents.items() if incident.merged_into is None}, state


@settings(max_examples=150, deadline=None)
@given(st.lists(statements(), max_size=25), cuts)
def test_any_cut_gives_the_same_incidents_and_state(said, times):
    assert known(cut(said, times)) == known(cut(said, ()))


@settings(max_examples=60, deadline=None)
@given(st.lists(statements(), max_size=25), cuts)
def test_a_restart_at_any_point_changes_nothing(said, times):
    assert cut(said, times, stored=True) == cut(said, times)


@settings(max_examples=60, deadline=None)
@given(st.lists(statements(), max_size=25), st.randoms())
def test_the_order_within_an_instant_does_not_matter(said, random):
    together = [{**row, "code": str(place)} for place, row in enumerate(said)]
    shuffled = random.sample(together, len(together))
    assert cut(shuffled, ()) == cut(together, ())


@settings(max_examples=100, deadline=None)
@given(st.lists(statements(), max_size=25), cuts)
def test_no_gpu_leaves_an_open_incident_but_for_a_better_one_and_severity_never_falls(said, times):
    rank = ("info", "ticket", "page").index
    state = Correlation()
    rows = sorted(said, key=lambda row: row["time"])
    before = NOON - timedelta(days=1)
    for time in sorted({*times, END_SECONDS}):
        now = NOON + timedelta(seconds=time)
        frame = pl.DataFrame([row for row in rows if before <= row["time"] < now], schema=FINDING_COLUMNS)
        earlier = {incident.id: incident for incident in state.incidents if incident.state == "firing"}
        _, state = correlate(frame, state, Context(now=now, began=NOON, topology=TOPOLOGY))
        out = {gpu for incident in state.incidents for gpu in incident.members}
        for incident in state.incidents:
            if incident.state == "firing" and incident.id in earlier:
                assert set(earlier[incident.id].members) <= out
                assert rank(earlier[incident.id].severity) <= rank(incident.severity)
        before = now


def test_a_cut_between_a_finding_and_its_deadline_changes_nothing():
    said = [finding(5, "node_lost", "n01", onset=2)]
    (once,) = cut(said, ())[0].values()
    for time in (5, 5.5, 7.9, 8, 8.5):
        assert cut(said, (time,)) == cut(said, ())
    assert once.detected_at == NOON + timedelta(seconds=8)


def test_the_cascade_is_the_same_in_one_step_and_in_a_hundred():
    pdus = [finding(5.2, "power_domain_lost", f"pdu{pdu}", onset=5) for pdu in range(3)]
    said = [
        *pdus,
        *nodes_lost(4.0, step=0.05, onset=5),
        *(end(60, "power_domain_lost", f"pdu{pdu}") for pdu in range(3)),
    ]
    assert cut(said, [tenth / 10 for tenth in range(100)], stored=True) == cut(said, ())


def test_a_finding_at_the_watermark_waits_for_the_rest_of_its_instant():
    frame = pl.DataFrame([finding(5, "gpu_fatal_error", "n01/3")], schema=FINDING_COLUMNS)
    now = NOON + timedelta(seconds=5)
    none, state = correlate(frame, Correlation(), Context(now=now, began=NOON, topology=TOPOLOGY))
    later = Context(now=now + timedelta(microseconds=1), began=NOON, topology=TOPOLOGY)
    (incident,), _ = correlate(frame.clear(), state, later)
    assert (none, incident.detected_at) == ((), now)
