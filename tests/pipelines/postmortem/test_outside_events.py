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
from pipelines.cli.events import add_event
from pipelines.cli.main import app
from pipelines.cli.output import Refused
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


@pytest.mark.parametrize(
    ("column", "longest"),
    [("kind", 256), ("title", 256), ("details", 4000), ("who", 4000), ("link", 4000), ("id", 4000),
     ("touches", 256), ("tags", 256)],
)  # fmt: skip
def test_nothing_of_an_event_is_longer_than_it_is_read(place: Place, column: str, longest: int) -> None:
    words = "x" * (longest + 1)
    done = said(place, {"time": NOW, column: [words] if column in ("touches", "tags") else words})
    assert done.new == 0
    assert [rule.partition("|")[0] for rule in done.refused["rule"]] == [column]


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


def at(place: Place, folder: Path) -> str:
    """A settings file with the stores of the place."""
    store, settings = place.settings.store, folder / "hotspare.toml"
    settings.write_text(f'[store]\ntelemetry = "{store.telemetry}"\noperations = "{store.operations}"\n')
    return str(settings)


def test_show_lists_them_as_text_and_as_data(place: Place, tmp_path: Path) -> None:
    settings = at(place, tmp_path)
    shown = CliRunner().invoke(app, ["incidents", "show", place.incident.id, "--settings", settings])
    assert "firmware: its PDU; touches leaf-*, pdu=pdu-001; 3 h before the onset" in shown.output
    listed = CliRunner().invoke(app, ["incidents", "show", place.incident.id, "--settings", settings, "--json"])
    events = json.loads(listed.output)["outside_events"]
    assert [one["seconds_before_onset"] for one in events if one["title"] == "its PDU"] == [3 * 3600.0]


@pytest.mark.parametrize(
    ("touches", "hint"), [("nope", "a job is written job=nope"), ("pdu=pdu-0001", "did you mean pdu-0")]
)
def test_an_event_that_touches_what_the_cluster_does_not_have_is_refused(
    place: Place, tmp_path: Path, touches: str, hint: str
) -> None:
    with pytest.raises(Refused, match=hint) as refused:
        add_event("x", touches=["n0*", touches], by="jo", settings=at(place, tmp_path))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("touches", ["n00001/3", "n00001/hca0", "n000*", "pdu=pdu-001", "job=any", "leaf-000:3"])
def test_what_an_event_may_touch_is_known(place: Place, tmp_path: Path, touches: str) -> None:
    assert add_event("x", at="2020-01-01T00:00:00Z", touches=[touches], by="jo", settings=at(place, tmp_path)) == 0


def test_without_a_cluster_any_name_may_be_touched(tmp_path: Path) -> None:
    settings = tmp_path / "hotspare.toml"
    settings.write_text(f'[store]\ntelemetry = "{tmp_path}/t.duckdb"\noperations = "{tmp_path}/o.sqlite"\n')
    assert add_event("x", touches=["nope"], by="jo", settings=str(settings)) == 0
