"""Outside events of this folder's incident: in its store, its bundle, with and without names, and on the screen."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from pipelines.bundles.anonymise import anonymised
from pipelines.bundles.bundle import Bundle, decode, encode
from pipelines.bundles.source import bundle_source
from pipelines.cli.main import app
from pipelines.outside_events import TABLE, Added, add, belonging, near, stored
from tests.pipelines.bundles.conftest import Place

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


def said(place: Place, *events: dict[str, object]) -> Added:
    rows = [{"kind": "deploy", "title": "x"} | event for event in events]
    frame = pl.DataFrame(rows, schema_overrides=dict(TABLE.columns), infer_schema_length=None)
    return add(place.telemetry, frame, NOW)


def before(place: Place, **how_long: float) -> datetime:
    return place.incident.starts_at - timedelta(**how_long)


@pytest.fixture(scope="module", autouse=True)
def told(place: Place) -> None:
    host = place.incident.roots[0].partition("/")[0]
    done = said(
        place,
        {"title": "host, long before", "time": before(place, hours=23), "touches": [host], "who": "jo.miller"},
        {"title": "its PDU", "time": before(place, hours=3), "touches": ["leaf-*", "pdu=pdu-001"], "kind": "firmware"},
        {"title": "all, long before", "time": before(place, hours=23)},
        {"title": "all week", "time": before(place, days=5), "ends_at": before(place, minutes=5), "touches": ["*"]},
        {"title": "elsewhere, soon", "time": before(place, minutes=12), "touches": ["n00007"], "link": "http://a.corp/"},
        {"title": "while it lasts", "time": before(place, seconds=-60), "id": "7"},
        {"title": "too long ago", "time": before(place, hours=25), "touches": [host]},
        {"title": "elsewhere, long before", "time": before(place, hours=3), "touches": ["pdu=pdu-000", "n0000?/x"]},
        {"title": "afterwards", "time": before(place, days=-2)},
        {"title": "", "time": before(place, minutes=1)},
    )  # fmt: skip
    assert (done.new, done.refused["rule"].to_list()) == (9, ["title|min_length"])


def test_what_touches_it_within_a_day_and_everything_within_its_time_belong_to_it(place: Place) -> None:
    found = near(place.telemetry, place.incident, place.incident.starts_at + timedelta(minutes=4))
    assert {one.row["title"]: one.where for one in found} == {
        "all week": "here", "host, long before": "here", "all, long before": "everywhere", "its PDU": "here",
        "elsewhere, soon": "elsewhere", "while it lasts": "everywhere",
    }  # fmt: skip
    soon = next(one for one in found if one.row["title"] == "elsewhere, soon")
    assert soon.text == "deploy: elsewhere, soon; touches n00007, none of this; 12 min before the onset"


def test_events_are_picked_by_the_onset_as_it_is_corrected(place: Place, bundle: Bundle) -> None:
    rows = stored(place.telemetry, before(place, minutes=13), before(place, minutes=11))
    (elsewhere,) = rows.filter(title="elsewhere, soon").iter_rows(named=True)
    host = place.incident.roots[0].partition("/")[0]
    soon, late = (
        belonging(rows, place.incident, bundle.topology, NOW, {host: lag})["title"].to_list()
        for lag in (timedelta(0), timedelta(hours=1))  # its clock is an hour slow: so much earlier was the event
    )
    assert elsewhere["title"] in soon
    assert elsewhere["title"] not in late


def test_the_same_said_again_is_written_once_and_an_id_said_again_takes_its_place(place: Place) -> None:
    event: dict[str, object] = {"title": "rollout", "time": before(place, days=40), "id": "r-1"}
    assert [said(place, event, event).new, said(place, event).new] == [1, 0]
    ended = event | {"ends_at": before(place, days=39), "recorded_at": NOW + timedelta(seconds=1)}
    assert said(place, ended).new == 1
    rows = stored(place.telemetry, before(place, days=41), before(place, days=38))
    assert rows["ends_at"].to_list() == [before(place, days=39)]


def test_a_bundle_has_them_and_is_replayed_as_before(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "x.hotspare"
    path.write_bytes(encode(place.export()))
    again = decode(path, 2**30)
    assert again.tables["outside_event"].height == 6
    arrivals = list(bundle_source(again, seconds=600).arrivals({}))
    assert sum(one.batch.quarantined.height for one in arrivals) == 0


def test_without_names_nobody_is_told_who_or_where(place: Place) -> None:
    hidden = anonymised(place.export()).tables["outside_event"]
    text = json.dumps(hidden.to_dicts(), default=str)
    host = place.incident.roots[0].partition("/")[0]
    assert [name for name in (host, "jo.miller", "a.corp", "pdu-001", "leaf-") if name in text] == []
    assert hidden.filter(title="host, long before")["touches"].to_list()[0][0].startswith("node-")
    assert hidden.filter(title="all week")["touches"].list.len()[0] > 1


def test_show_lists_them_as_text_and_as_data(place: Place, tmp_path: Path) -> None:
    store = place.settings.store
    settings = tmp_path / "hotspare.toml"
    settings.write_text(f'[store]\ntelemetry = "{store.telemetry}"\noperations = "{store.operations}"\n')
    shown = CliRunner().invoke(app, ["incidents", "show", place.incident.id, "--settings", str(settings)])
    assert "firmware: its PDU; touches leaf-*, pdu=pdu-001; 3 h before the onset" in shown.output
    listed = CliRunner().invoke(app, ["incidents", "show", place.incident.id, "--settings", str(settings), "--json"])
    events = json.loads(listed.output)["outside_events"]
    assert [one["seconds_before_onset"] for one in events if one["title"] == "its PDU"] == [3 * 3600.0]
