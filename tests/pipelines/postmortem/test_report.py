"""The report of the incident that tests/pipelines/bundles uses."""

import json
import re
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest

from pipelines.bundles.bundle import Bundle, Saying
from pipelines.postmortem.facts import document
from pipelines.postmortem.otherwise import Otherwise, differs, otherwise
from pipelines.postmortem.report import NOTHING_YET, html, markdown, written, written_by_people
from pipelines.postmortem.timeline import timeline, times
from pipelines.settings import Settings, settings_from
from schemas.admission import admit
from schemas.tables import TABLE_BY_NAME
from tests.pipelines.bundles.conftest import SAID

PRICE = 2.0
LATER = {"detectors": {"gpu.absent": {"missed_intervals": 20.0}, "job.heartbeat": {"missed_dead": 60.0}}}
HOSTILE = "<script>alert(1)</script>|x\ny"


def test_the_timeline_is_in_order_and_begins_with_the_onset(bundle: Bundle) -> None:
    entries = timeline(bundle, ())
    assert [one.at for one in entries] == sorted(one.at for one in entries)
    ours = [one.what for one in entries if one.at >= bundle.incident.starts_at and one.what != "maintenance"]
    assert ours[0] == "telemetry"
    assert {"finding", "incident", "action", "person"} <= set(ours)


def test_times_count_from_the_onset(bundle: Bundle) -> None:
    measured = times(bundle)
    incident = bundle.incident
    assert measured.detect == (incident.detected_at - incident.starts_at).total_seconds()
    assert measured.acknowledge == (SAID - incident.starts_at).total_seconds()
    assert measured.mitigate is None  # all was rehearsed, and nobody said so


def enforced(bundle: Bundle, why: str, **said: str) -> Bundle:
    """The same incident where its drain was carried out, as its executor put it. said: of who let it."""
    [drain] = [one for one in bundle.actions if one.request.kind == "drain_node"]
    asked = replace(drain.request, parameters={**drain.request.parameters, **said})
    done = replace(drain, request=asked, mode="enforce", outcome="done", why=why)
    return replace(bundle, actions=tuple(done if one is drain else one for one in bundle.actions))


def test_what_was_only_logged_mitigates_nothing_and_is_told_so(bundle: Bundle) -> None:
    [drain] = [one for one in bundle.actions if one.request.kind == "drain_node"]
    done, logged = enforced(bundle, "slurm: drained"), enforced(bundle, "only logged: no executor is named")
    assert times(done).mitigate == (drain.at - bundle.incident.starts_at).total_seconds()
    assert times(logged).mitigate is None
    said = f"drain_node of {drain.request.target}: only logged (no executor is named)"
    assert said in [one.text for one in timeline(logged, ())]
    assert "1 only logged" in markdown(logged, PRICE)
    told = [one for one in document(logged, PRICE)["follow_ups"] if one.startswith("Only logged")]
    assert len(told) == 1


def test_what_people_approved_is_not_told_before_they_did(bundle: Bundle) -> None:
    """Actions have the telemetry's time and people that of their clocks, which is later where the stream lags."""
    [drain] = [one for one in bundle.actions if one.request.kind == "drain_node"]
    asked = [Saying(at=drain.at + timedelta(seconds=more), by=by, kind="approved", text=f"drain_node of {by}")
             for more, by in ((29, "ann"), (42, "bob"))]  # fmt: skip
    approval = {"approval": "approved by ann and bob", "approved_at": asked[-1].at.isoformat()}
    told = replace(enforced(bundle, "slurm: drained", **approval), remarks=tuple(asked))
    order = [(one.at, one.text) for one in timeline(told, ()) if "drain_node" in one.text]
    note = f" (telemetry was at {drain.at:%H:%M:%S})"
    done = f"drain_node of {drain.request.target}: done (approved by ann and bob; slurm: drained){note}"
    assert order[-1] == (asked[-1].at, done)
    assert times(told).mitigate == (asked[-1].at - bundle.incident.starts_at).total_seconds()
    assert document(told, PRICE)["done"][-1]["at"] == asked[-1].at.isoformat(timespec="milliseconds")


def slow(bundle: Bundle, seconds: float) -> Bundle:
    """The same incident where the clock of the root's host was known to be so slow."""
    host = bundle.incident.roots[0].partition("/")[0]
    return replace(bundle, manifest=replace(bundle.manifest, lags={host: seconds}))


def test_what_a_slow_clock_said_is_put_right_and_says_so(bundle: Bundle) -> None:
    began, shift = bundle.incident.starts_at, timedelta(seconds=31)
    entries = timeline(slow(bundle, 31.0), ())
    note = f"(clock 31 s slow, corrected from {began:%H:%M:%S}.123)"
    [onset] = [one for one in entries if one.what == "telemetry"]
    assert (onset.at, onset.text) == (began + shift, f"onset, as estimated from the data {note}")
    [xid] = [one for one in entries if one.who == "gpu.xid"]
    assert xid.at == began + shift
    assert note in xid.text
    assert times(slow(bundle, 31.0)).acknowledge == (SAID - began - shift).total_seconds()


def test_silence_judged_by_the_watermark_and_words_of_people_stay_where_they_are(bundle: Bundle) -> None:
    unmoved = {"job.heartbeat", "maria.lopez", "dry-run"}
    before, after = (
        [(one.at, one.text) for one in timeline(each, ()) if one.who in unmoved]
        for each in (bundle, slow(bundle, 31.0))
    )
    assert before == after
    assert any("gpu_hang" in text for _, text in before)


def over(bundle: Bundle, stamped: str, entity: str | None = None) -> Bundle:
    """The same incident over after two minutes, by what this detector said of the entity, its root by default."""
    at = bundle.incident.starts_at + timedelta(minutes=2)
    incident = replace(bundle.incident, state="resolved", ends_at=at)
    if entity is not None:
        incident = replace(incident, symptoms=(("gpu", entity),))
    said = bundle.findings.filter(detector=stamped, entity=incident.roots[0]).head(1)
    who = entity or incident.roots[0]
    said = said.with_columns(time=pl.lit(at, said.schema["time"]), active=pl.lit(False), entity=pl.lit(who))
    findings = pl.concat([bundle.findings.filter(pl.col("time") < at), said])
    return replace(bundle, incidents=(incident,), findings=findings)


def test_an_end_that_the_slow_clock_stamped_is_put_right_like_the_onset(bundle: Bundle) -> None:
    ended = slow(over(bundle, "gpu.absent"), 31.0)
    at = bundle.incident.starts_at + timedelta(minutes=2)
    facts = document(ended, PRICE)
    assert facts["ends_at"] == (at + timedelta(seconds=31)).isoformat(timespec="milliseconds")
    assert facts["seconds"]["to_resolve"] == 120
    assert facts["impact"]["lost_gpu_seconds"] == 120  # of one GPU
    last = [one for one in timeline(ended, ()) if one.at == at + timedelta(seconds=31)]
    assert [one.what for one in last] == ["finding", "incident"]
    assert last[1].text.endswith(f"recovered (clock 31 s slow, corrected from {at:%H:%M:%S}.123)")


@pytest.mark.parametrize(
    ("stamped", "entity"), [("job.heartbeat", None), ("gpu.absent", "n00007/1"), ("nobody", None)],
    ids=["the watermark", "another host", "nobody"],
)  # fmt: skip
def test_an_end_by_any_other_clock_stays(bundle: Bundle, stamped: str, entity: str | None) -> None:
    facts = document(slow(over(bundle, stamped, entity), 31.0), PRICE)
    assert facts["seconds"]["to_resolve"] == 120 - 31
    assert facts["impact"]["lost_gpu_seconds"] == 120 - 31


def with_events(bundle: Bundle, *events: dict[str, object]) -> Bundle:
    rows = [{"kind": "deploy", "title": "trainer 2.3"} | event for event in events]
    frame = pl.DataFrame(rows, schema_overrides=dict(TABLE_BY_NAME["outside_event"].columns), infer_schema_length=None)
    return replace(bundle, tables={**bundle.tables, "outside_event": admit(TABLE_BY_NAME["outside_event"], frame).rows})


def test_a_deploy_before_the_onset_is_told_and_to_be_ruled_out(bundle: Bundle) -> None:
    event = {"time": bundle.incident.starts_at - timedelta(minutes=12), "who": "jo", "link": "https://ci.example/7"}
    told = with_events(bundle, event, event | {"title": "later", "link": "javascript:alert(1)"})
    facts, page = document(told, PRICE), html(told, PRICE)
    assert facts["timeline"][0]["text"] == "deploy: later; 12 min before the onset"
    assert "Rule out as a cause: deploy: trainer 2.3; 12 min before the onset (ask jo)." in facts["follow_ups"]
    assert page.count('href="') == page.count('href="https://ci.example/7"') == 1


def test_events_are_counted_from_the_onset_that_the_timeline_shows(bundle: Bundle) -> None:
    began = bundle.incident.starts_at
    told = with_events(bundle, {"time": began - timedelta(minutes=12)}, {"time": began + timedelta(seconds=60)})
    facts = document(slow(told, 120.0), PRICE)
    assert [one["seconds_before_onset"] for one in facts["outside_events"]] == [14 * 60, 60]
    said = "deploy: trainer 2.3; {} min before the onset"
    assert [one["text"] for one in facts["timeline"] if one["what"] == "outside"] == [said.format(14), said.format(1)]
    assert {f"Rule out as a cause: {said.format(minutes)}." for minutes in (14, 1)} <= set(facts["follow_ups"])


@pytest.fixture(scope="module")
def later(bundle: Bundle) -> Otherwise:
    """Without its driver events the GPU is found by its silence, which these settings wait longer for."""
    silent = replace(bundle, tables={name: rows for name, rows in bundle.tables.items() if name != "gpu_event"})
    return otherwise(silent, settings_from(LATER, "later.toml"), "later.toml")


def test_another_setting_is_told_with_what_it_changes_and_why(bundle: Bundle, later: Otherwise) -> None:
    interval = bundle.manifest.intervals["gpu"]
    then = max(3.25 * interval, 5.0)  # 3 intervals, and a quarter until a row counts as missed; 5 s at least
    seconds = 20.25 * interval - then
    assert later.seconds_earlier == -seconds
    assert later.verdict == f"it would have been found {seconds:.1f} s later"
    assert ("detectors.gpu.absent.missed_intervals", "default", "20.0") in later.changed
    assert [one.change for one in later.differences] == ["later"]
    for text in (html(bundle, PRICE, None, later), markdown(bundle, PRICE, "", later)):
        assert later.verdict in text
        assert str(later.differences[0].finding) in text
    assert json.loads(json.dumps(document(bundle, PRICE, later)))["otherwise"]["verdict"] == later.verdict


def test_settings_that_judge_alike_are_no_others(bundle: Bundle) -> None:
    assert not differs(bundle, Settings())
    assert differs(bundle, settings_from(LATER, "later.toml"))


def test_the_loss_is_members_times_duration_at_the_price(bundle: Bundle) -> None:
    incident = bundle.incident
    until = incident.ends_at or bundle.manifest.ends_at
    seconds = len(incident.members) * (until - incident.starts_at).total_seconds()
    impact = document(bundle, PRICE)["impact"]
    assert impact["lost_gpu_seconds"] == seconds
    assert impact["dollars"] == round(seconds / 3600 * PRICE, 2)
    assert json.dumps(document(bundle, PRICE))


def test_what_people_wrote_survives_writing_it_anew(bundle: Bundle) -> None:
    first = markdown(bundle, PRICE)
    edited = first.replace(NOTHING_YET, "The riser card was loose.\n\n- reseat all of them", 1)
    again = markdown(bundle, PRICE, edited)
    assert "The riser card was loose.\n\n- reseat all of them\n<!-- end -->" in again
    assert markdown(bundle, PRICE, again) == again


def test_the_page_shows_what_people_wrote_beside_it_and_nothing_they_did_not(bundle: Bundle, tmp_path: Path) -> None:
    text = markdown(bundle, PRICE).replace(NOTHING_YET, "The <b>riser</b> was loose.", 1)
    (tmp_path / "report.md").write_text(text)
    assert len(written_by_people(text)) == 4
    page = written(tmp_path / "report.html", bundle, PRICE)
    assert "The &lt;b&gt;riser&lt;/b&gt; was loose." in page
    assert NOTHING_YET not in page


class Page(HTMLParser):
    """Tags that are never closed, and everything that would be fetched."""

    VOID = frozenset({"meta", "br", "line", "polyline", "polygon", "link", "img"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "a":  # followed when somebody asks for it
            self.fetched += [value or "" for name, value in attrs if name in {"src", "href", "srcset", "action"}]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_the_page_is_one_small_file_that_fetches_nothing(bundle: Bundle) -> None:
    text = html(bundle, PRICE)
    page = Page()
    page.feed(text)
    assert (page.open, page.fetched) == ([], [])
    assert "url(" not in text
    assert len(text) < 3_000_000
    assert text.count("<svg") >= 3


def test_hostile_names_and_notes_stay_text(bundle: Bundle) -> None:
    note = replace(bundle.remarks[0], kind="note", text=HOSTILE, by=HOSTILE)
    hostile = replace(bundle, remarks=(note,))
    assert "<script>" not in html(hostile, PRICE)
    text = markdown(hostile, PRICE)
    assert "<script>" not in text
    (row,) = (line for line in text.splitlines() if "script" in line)
    assert len(re.findall(r"(?<!\\)\|", row)) == 5
