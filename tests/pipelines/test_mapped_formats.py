from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pipelines.mapped_formats import mapped_format
from pipelines.settings import Settings, SettingsError, settings_from
from pipelines.sources.choose import source_for, topic_formats
from pipelines.sources.contract import SourceError
from schemas.formats.decoded import Surroundings

MAPPING: dict[str, Any] = {
    "table": "power", "columns": {"t": "time", "kw": "watts"}, "units": {"watts": "kW"}, "constants": {"pdu": "pdu-1"},
}  # fmt: skip
MODBUS: dict[str, Any] = {
    "table": "coolant_loop", "source": "cdu", "registers": [{"column": "supply_celsius", "address": 1, "scale": 0.1}],
}  # fmt: skip


def settings(**sections: Any) -> Settings:
    return settings_from(sections, "hotspare.toml")


def chosen() -> Settings:
    return settings(mapping={"meter": MAPPING}, modbus={"cdu": MODBUS}, topics={"a": "mapping:cdu", "b": "kernel log"})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"table": "powers"}, "no table 'powers'"),
        ({"columns": {"kw": "wats"}}, "did you mean 'watts'"),
        ({"units": {"watts": "hp"}}, "'hp' is no unit of watts"),
        ({"constants": {}}, "nothing is mapped to pdu"),
        ({"columns": {"a": "watts", "b": "watts"}}, "given twice"),
        ({"colums": {}}, "mapping.meter.colums"),
    ],
)
def test_a_wrong_mapping_is_refused_in_one_line(change: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        settings(mapping={"meter": MAPPING | change})
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"source": "cdus"}, "no column 'cdus'"),
        ({"registers": [{"column": "leak_state", "address": 1}]}, "leak_state of coolant_loop is no number"),
        ({"registers": [{"column": "supply_celsius", "address": 1, "unit": "psi"}]}, "'psi' is no unit"),
        ({"table": "coolant_pump"}, "no column 'supply_celsius'"),
    ],
)
def test_a_wrong_register_map_is_refused_in_one_line(change: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        settings(modbus={"cdu": MODBUS | change})
    assert words in str(caught.value)


def test_a_register_map_knows_the_invalid_marks_of_each_width() -> None:
    wide = MODBUS["registers"][0] | {"address": 5, "column": "return_celsius", "encoding": "int32"}
    read = settings(modbus={"cdu": MODBUS | {"registers": [MODBUS["registers"][0], wide]}}).modbus["cdu"].register_map()
    assert [register.invalid for register in read.registers] == [(0x8000, 0xFFFF), (0x8000_0000, 0xFFFF_FFFF)]


def test_a_name_that_no_section_has_is_an_error_with_a_hint() -> None:
    with pytest.raises(ValueError, match="did you mean 'meter'"):
        mapped_format("metre", chosen().mapping, chosen().modbus)


def test_topics_take_a_mapping_by_its_name() -> None:
    formats = topic_formats(chosen())
    assert formats["b"] == "kernel log"
    form = formats["a"]
    assert not isinstance(form, str)
    table = form.decode(b'{"unit": "cdu-1", "registers": {"1": 215}}', Surroundings()).tables["coolant_loop"]
    assert table["supply_celsius"].to_list() == [21.5]


def test_a_file_is_read_by_the_mapping_that_is_named(tmp_path: Path) -> None:
    file = tmp_path / "meter.csv"
    file.write_text("t,kw\n2026-07-31T12:00:00Z,6.4\n")
    arrivals = list(source_for(str(file), chosen(), mapping="meter").arrivals({}))
    assert arrivals[0].batch.tables["power"].select("time", "pdu", "watts").rows() == [
        (datetime(2026, 7, 31, 12, tzinfo=UTC), "pdu-1", 6400.0)
    ]


def test_a_file_with_a_mapping_that_is_not_there_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "meter.csv"
    file.write_text("t,kw\n")
    with pytest.raises(SourceError, match=r"no mapping\.other and no modbus\.other"):
        source_for(str(file), chosen(), mapping="other")
