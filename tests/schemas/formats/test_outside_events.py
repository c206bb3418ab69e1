"""Annotations as Grafana's HTTP API documents them (annotations, POST and GET), and our own columns."""

import json
from datetime import UTC, datetime

import pytest

from schemas.admission import admit
from schemas.formats.decoded import Surroundings, Unreadable
from schemas.formats.outside_events import decode
from schemas.tables import TABLE_BY_NAME

RECEIVED = datetime(2026, 3, 2, 9, tzinfo=UTC)
# The examples of the HTTP API's reference, with the tags of a deploy in the second.
POSTED = b"""{"dashboardUID": "jcIIG-07z", "panelId": 2, "time": 1507037197339, "timeEnd": 1507180805056,
 "tags": ["tag1", "tag2"], "text": "Annotation Description"}"""
LISTED = b"""[{"id": 1124, "alertId": 0, "dashboardId": 468, "panelId": 2, "userId": 1, "userName": "jo",
 "newState": "", "prevState": "", "time": 1507266395000, "timeEnd": 1507266395000, "metric": "",
 "text": "trainer 2.3\\nsee the wiki", "tags": ["deploy", "pdu:pdu-003", "node=n0*", "team:ml"], "data": {}}]"""


def rows(data: bytes, **surroundings: object) -> list[dict[str, object]]:
    decoded = decode(data, Surroundings(received_at=RECEIVED, **surroundings))  # type: ignore[arg-type]  # any of them
    assert decoded.rejects.is_empty()
    admitted = admit(TABLE_BY_NAME["outside_event"], decoded.tables["outside_event"])
    assert admitted.quarantined.is_empty()
    assert not admitted.ignored
    return admitted.rows.to_dicts()


def test_an_annotation_that_is_posted_is_a_span_with_its_tags() -> None:
    [row] = rows(POSTED)
    assert (row["time"], row["ends_at"]) == (
        datetime(2017, 10, 3, 13, 26, 37, 339000, UTC), datetime(2017, 10, 5, 5, 20, 5, 56000, UTC),
    )  # fmt: skip
    assert (row["kind"], row["title"], row["tags"], row["touches"]) == (
        "annotation", "Annotation Description", ["tag1", "tag2"], None,
    )  # fmt: skip


def test_an_annotation_that_is_listed_is_a_moment_with_kind_and_places_in_its_tags() -> None:
    [row] = rows(LISTED)
    assert (row["ends_at"], row["kind"], row["title"], row["who"], row["id"]) == (
        None,
        "deploy",
        "trainer 2.3",
        "jo",
        "1124",
    )
    assert row["touches"] == ["pdu=pdu-003", "node=n0*"]
    assert row["details"] == "trainer 2.3\nsee the wiki"


def test_a_csv_of_a_spreadsheet_has_its_own_zone_and_lists_in_a_cell() -> None:
    text = b'time,kind,title,touches,link\r\n2026-03-02 10:00,construction,"Roof, east",pdu=pdu-003; cdu=cdu-1,https://x\r\n'
    [row] = rows(text, utc_offset_minutes=60)
    assert (row["time"], row["title"], row["touches"]) == (RECEIVED, "Roof, east", ["pdu=pdu-003", "cdu=cdu-1"])


@pytest.mark.parametrize("time", [1_772_442_000, 1_772_442_000_000, 1_772_442_000_000_000, "2026-03-02T09:00:00Z"])
def test_seconds_milliseconds_and_microseconds_are_told_apart(time: object) -> None:
    assert rows(json.dumps({"time": time, "text": "x"}).encode())[0]["time"] == RECEIVED


def test_an_event_without_a_time_happened_when_it_came() -> None:
    assert [row["time"] for row in rows(b'{"text": "a", "tags": []}\n{"text": "b", "time": 0}\n')] == [RECEIVED] * 2


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ('{"time": 1}', "no text or title"), ('{"text": "x", "time": "noon"}', "time 'noon' is none"), ("7", "object"),
        ('{"text": "x", "time": 99, "timeEnd": 98}', "it ends before it begins"),
        ('{"text": "x", "timeEnd": true}', None), ('{"text": "\\\\ud800", "kind": {"a": 1}}', None),
    ],
)  # fmt: skip
def test_what_is_no_event_costs_itself_alone(entry: str, reason: str | None) -> None:
    decoded = decode(f'[{entry}, {{"text": "good"}}]'.encode(), Surroundings(received_at=RECEIVED))
    assert decoded.tables["outside_event"]["title"].to_list()[-1] == "good"
    assert [reason in why for why in decoded.rejects["reason"]] == ([True] if reason else [])


@pytest.mark.parametrize("data", [b"", b"nothing of it", b"a,b\n1,2\n", b"[" * 5000, b"\xff\xfe", b'{"text": '])
def test_what_is_neither_json_nor_csv_is_unreadable_in_one_line(data: bytes) -> None:
    with pytest.raises(Unreadable) as caught:
        decode(data, Surroundings())
    assert "\n" not in str(caught.value)
