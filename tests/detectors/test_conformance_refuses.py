"""Detectors that are broken on purpose: every check of the conformance suite must refuse one, and only for that."""

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

import polars as pl
import pytest

from detectors.contract import Detection, findings_frame
from schemas.coolant import CoolantLoop
from tests.detectors.conformance_checks import (
    check_cut,
    check_findings,
    check_inputs_unchanged,
    check_names_do_not_matter,
    check_order_of_rows,
    check_silent,
    check_state_bounded,
    check_state_survives_storage,
    check_survives,
    with_tables,
)
from tests.detectors.streams import stream_of


@dataclass(frozen=True, kw_only=True)
class Broken:
    """Says that the loop is hot; right but for `how`."""

    how: str = ""
    name: ClassVar[str] = "coolant.broken"
    reads: ClassVar = (CoolantLoop,)
    keeps: ClassVar = pl.Schema({"cdu": pl.String, "time": pl.Datetime("us", "UTC"), "low": pl.Boolean})

    def detect(self, tables, state, context):
        rows = tables[CoolantLoop]
        if self.how == "mutates" and rows.height:
            rows[0, "flow_liters_per_minute"] = 1.0
        limit = 1e6 if self.how == "cries" else 40.0
        if self.how == "order":
            rows = rows.unique("time", keep="first", maintain_order=True)
        low = rows.select("cdu", "time", low=pl.col("flow_liters_per_minute") < limit)
        if self.how == "raises" and rows["flow_liters_per_minute"].null_count():
            raise ValueError(rows)
        before = state.clear() if self.how == "forgets" else state
        both = pl.concat([before, low]).sort("cdu", "time", maintain_order=True)
        was = pl.col("low").shift(1, fill_value=False).over("cdu")
        turned = both.filter(pl.col("low") & ~was)
        turned = turned.join(before, on=["cdu", "time"], how="anti")
        time = pl.lit(context.now) if self.how == "now" else pl.col("time")
        if self.how == "names":
            turned = turned.filter(pl.col("cdu") != "cdu-01")
        severity = pl.lit("loud" if self.how == "schema" else "page")
        said = turned.select(time=time, first_bad_at="time", entity="cdu", active=True, severity=severity)
        last = both if self.how == "grows" else both.group_by("cdu", maintain_order=True).last()
        after = last.select(self.keeps.names()).sort("cdu", "time")
        if self.how == "keeps":
            after = after.with_columns(more=1)
        return Detection(findings_frame(said.sort("time", "entity"), self.name, "coolant_pump_failure", "cdu"), after)


@pytest.fixture(scope="module")
def loops():
    stream = stream_of("pump_failure")
    return stream.until(stream.began + timedelta(seconds=240))


def checks(stream):
    fault = stream.began + timedelta(seconds=190)
    blank = stream.tables["coolant_loop"].with_columns(flow_liters_per_minute=pl.lit(None, pl.Float64))
    nulls = with_tables(stream, {"coolant_loop": blank})
    return {
        "now": lambda broken: check_cut(broken, stream, [fault]),
        "forgets": lambda broken: check_cut(broken, stream, [fault]),
        "order": lambda broken: check_order_of_rows(broken, stream),
        "names": lambda broken: check_names_do_not_matter(broken, stream),
        "mutates": lambda broken: check_inputs_unchanged(broken, stream),
        "keeps": lambda broken: check_state_survives_storage(broken, stream, fault),
        "grows": lambda broken: check_state_bounded(broken, stream),
        "schema": lambda broken: check_findings(broken, stream, stream.run(broken)),
        "raises": lambda broken: check_survives(broken, nulls),
        "cries": lambda broken: check_silent(broken, stream.until(stream.began + timedelta(seconds=100))),
    }


HOWS = ("now", "forgets", "order", "names", "mutates", "keeps", "grows", "schema", "raises", "cries")


@pytest.mark.parametrize("how", HOWS)
def test_the_check_refuses_a_detector_broken_on_purpose(loops, how):
    with pytest.raises((AssertionError, ValueError)):
        checks(loops)[how](Broken(how=how))


@pytest.mark.parametrize("how", HOWS)
def test_the_check_accepts_the_same_detector_unbroken(loops, how):
    checks(loops)[how](Broken())
