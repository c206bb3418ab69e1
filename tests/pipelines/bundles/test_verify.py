from dataclasses import replace
from datetime import timedelta

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipelines.bundles.anonymise import anonymised
from pipelines.bundles.bundle import Bundle, encode
from pipelines.bundles.source import bundle_source
from pipelines.bundles.verify import divergence
from pipelines.rejudge import Rejudged, rejudge
from pipelines.settings import Settings
from pipelines.sources.contract import SourceError
from tests.pipelines.bundles.conftest import Place


def judged(bundle: Bundle, seconds: int = 3600) -> Rejudged:
    return rejudge(bundle_source(bundle, seconds=seconds), Settings(), rows_at_once=0)


@pytest.fixture(scope="module")
def again(bundle: Bundle) -> Rejudged:
    return judged(bundle)


def test_a_bundle_is_judged_as_it_was_then(bundle: Bundle, again: Rejudged) -> None:
    assert divergence(bundle, again) is None


def test_findings_incidents_and_actions_do_not_depend_on_the_cut(bundle: Bundle, again: Rejudged) -> None:
    whole, pieces = again, judged(bundle, 50)
    columns = [name for name in whole.findings.columns if name != "evidence"]
    assert_frame_equal(pieces.findings.select(columns), whole.findings.select(columns), check_exact=True)
    assert pieces.incidents == whole.incidents
    assert pieces.actions == whole.actions


def test_a_finding_that_is_not_made_any_more_is_the_first_divergence(bundle: Bundle, again: Rejudged) -> None:
    found = divergence(bundle, replace(again, findings=again.findings.clear()))
    assert found is not None
    assert bundle.incident.roots[0] in found.what
    assert found.what.endswith("then, and not now")


def test_another_version_is_named_as_the_likely_cause(bundle: Bundle, again: Rejudged) -> None:
    old = replace(bundle, manifest=replace(bundle.manifest, versions={"hotspare": "0.0.1"}))
    found = divergence(old, replace(again, findings=again.findings.clear()))
    assert found is not None
    assert found.cause.startswith("version: hotspare 0.0.1 then")


def test_an_anonymised_bundle_is_judged_the_same_and_no_name_is_left(bundle: Bundle) -> None:
    hidden = anonymised(bundle)
    assert divergence(hidden, judged(hidden)) is None
    data = encode(replace(hidden, tables={}, findings=hidden.findings.clear()))
    frames = [*hidden.tables.values(), hidden.findings, hidden.topology.nodes, hidden.topology.links]
    texts = [str(one) for frame in frames for column in frame.select(pl.col(pl.String)) for one in column.unique()]
    everything = data.decode(errors="replace") + "\n".join(texts)
    nodes = bundle.topology.nodes
    originals = {
        *nodes["node"], *nodes["pdu"].drop_nulls(), *nodes["superblock"].drop_nulls(), *bundle.topology.switches,
        *bundle.topology.links["cable"], *bundle.tables["heartbeat"]["job"].drop_nulls().unique(),
        *bundle.tables["gpu"]["uuid"].drop_nulls().unique(), "maria.lopez", "10.1.2.3", bundle.incident.id,
    }  # fmt: skip
    assert sorted(name for name in originals if name in everything) == []


def test_pseudonyms_of_one_name_are_one_everywhere(bundle: Bundle) -> None:
    hidden = anonymised(bundle)
    (root,) = hidden.incident.roots
    note = next(one for one in hidden.remarks if one.kind == "note")
    assert note.text.startswith(f"person-2: {root} at address-1 is out, ask ")
    assert root.split("/")[0] in set(hidden.tables["gpu"]["node"])


def test_a_time_that_the_store_no_longer_holds_is_one_line(place: Place) -> None:
    gone = replace(place.incident, starts_at=place.incident.starts_at - timedelta(days=9),
                   ends_at=place.incident.starts_at - timedelta(days=8))  # fmt: skip
    with pytest.raises(SourceError, match=r"nothing is stored of the time of"):
        place._replace(incident=gone).export()
