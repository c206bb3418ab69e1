import io
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from schemas.admission import admit
from schemas.formats import mapped_table
from schemas.formats.decoded import Decoded, Surroundings, Unreadable
from schemas.formats.mapped_table import ColumnMapping
from schemas.tables import TABLE_BY_NAME

DATASETS = Path(__file__).parents[4] / "shared/corpus/datasets"
RECEIVED = datetime(2026, 8, 1, tzinfo=UTC)
SURROUNDINGS = Surroundings(node="n1", received_at=RECEIVED)
NOON = datetime(2026, 7, 31, 12, tzinfo=UTC)
CHILLER = ColumnMapping(
    table="coolant_loop",
    columns={"Time": "time", "T supply": "supply_celsius", "Flow": "flow_liters_per_minute", "Leak": "leak_state"},
    constants={"cdu": "cdu-07"}, units={"supply_celsius": "F", "flow_liters_per_minute": "gal/min"},
)  # fmt: skip


def decoded(data: str | bytes, mapping: ColumnMapping = CHILLER) -> Decoded:
    return mapped_table.decode(data.encode() if isinstance(data, str) else data, SURROUNDINGS, mapping=mapping)


def rows(answer: Decoded, table: str = "coolant_loop") -> pl.DataFrame:
    admitted = admit(TABLE_BY_NAME[table], answer.tables[table])
    assert (admitted.quarantined.height, admitted.ignored) == (0, {})
    return admitted.rows


def test_csv_by_its_mapping_in_the_tables_units() -> None:
    answer = decoded("Time,x,T supply,Flow,Leak\n2026-07-31T12:00:00Z,x,77,10,ok\n2026-07-31 12:00:01,,N/A,ERR!,\n")
    found = rows(answer).select("time", "cdu", "supply_celsius", "flow_liters_per_minute", "leak_state").rows()
    assert found[0] == (NOON, "cdu-07", pytest.approx(25.0), pytest.approx(37.85411784), "ok")
    assert found[1] == (datetime(2026, 7, 31, 12, 0, 1, tzinfo=UTC), "cdu-07", None, None, None)
    assert answer.rejects["rule"].to_list() == ["supply_celsius|type", "flow_liters_per_minute|type"]
    assert "return_celsius" in answer.missing


@pytest.mark.parametrize(
    ("form", "cell"),
    [("unix_s", "1785499200"), ("unix_s", "1785499200.0"), ("unix_ms", "1785499200000"),
     ("unix_us", "1785499200000000"),
     ("unix_ns", "1785499200000000000"), ("iso", "2026-07-31T14:00:00+02:00"), ("%d.%m.%Y %H:%M", "31.07.2026 12:00"),
     ("%Y-%m-%d %H:%M:%S %z", "2026-07-31 14:00:00 +0200")],
)  # fmt: skip
def test_times_by_the_format_of_the_mapping(form: str, cell: str) -> None:
    mapping = ColumnMapping(table="power", columns={"t": "time", "p": "pdu", "w": "watts"}, time_format=form)
    assert rows(decoded(f"t,p,w\n{cell},pdu-1,5\n", mapping), "power")["time"].to_list() == [NOON]


def test_times_without_a_zone_are_local() -> None:
    mapping = ColumnMapping(table="power", columns={"t": "time", "p": "pdu", "w": "watts"})
    east = Surroundings(node="n1", utc_offset_minutes=120)
    answer = mapped_table.decode(b"t,p,w\n2026-07-31 14:00:00,pdu-1,5\n", east, mapping=mapping)
    assert answer.tables["power"]["time"].to_list() == [NOON]


@pytest.mark.parametrize("cell", ["soon", "", "99999999999999999999"])
def test_a_row_without_a_time_is_refused(cell: str) -> None:
    mapping = ColumnMapping(table="power", columns={"t": "time", "p": "pdu", "w": "watts"}, time_format="unix_s")
    answer = decoded(f"t,p,w\n{cell},pdu-1,5\n1785499200,pdu-1,6\n", mapping)
    assert rows(answer, "power")["watts"].to_list() == [6.0]
    assert answer.rejects.select("rule", "offset").rows() == [("time|type", 1)]


def test_scale_counters_and_readings_out_of_range() -> None:
    mapping = ColumnMapping(
        table="gpu", columns={"h": "node", "i": "gpu", "mb": "memory_used_bytes", "t": "temperature_celsius", "e":
                              "ecc_correctable_total"},
        units={"memory_used_bytes": "MiB"}, scale={"temperature_celsius": 0.1},
    )  # fmt: skip
    answer = decoded("h,i,mb,t,e\nn1,3,2,451,9007199254740993\nn1,4,2,9999,7\n", mapping)
    assert rows(answer, "gpu").select("time", "gpu", "memory_used_bytes", "temperature_celsius").rows() == [
        (RECEIVED, 3, 2 * 1024 * 1024, pytest.approx(45.1)), (RECEIVED, 4, 2 * 1024 * 1024, None),
    ]  # fmt: skip
    assert rows(answer, "gpu")["ecc_correctable_total"].to_list() == [2**53 + 1, 7]
    assert answer.rejects["rule"].to_list() == ["temperature_celsius|range"]


def test_parquet_by_its_mapping() -> None:
    frame = pl.DataFrame({"Time": [NOON], "T supply": [77.0], "Flow": [10], "Leak": ["ok"], "other": [[1, 2]]})
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    found = rows(decoded(buffer.getvalue())).select("time", "supply_celsius", "leak_state").row(0)
    assert found == (NOON, pytest.approx(25.0), "ok")


def test_a_parquet_file_that_expands_too_far_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped_table, "EXPANSION_FREE_BYTES", 1000)
    frame = pl.DataFrame({"Time": [NOON] * 500_000, "T supply": 77.0, "Flow": 10, "Leak": "ok"})
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    with pytest.raises(Unreadable, match="expands"):
        decoded(buffer.getvalue())


@pytest.mark.parametrize("cut", [8, 100, 300])
def test_damaged_parquet_is_unreadable_in_one_line(cut: int) -> None:
    buffer = io.BytesIO()
    pl.DataFrame({"Time": [NOON], "T supply": [77.0], "Flow": [10], "Leak": ["ok"]}).write_parquet(buffer)
    with pytest.raises(Unreadable) as caught:
        decoded(buffer.getvalue()[:cut])
    assert "\n" not in str(caught.value)


def test_a_column_that_the_file_has_not_is_named() -> None:
    with pytest.raises(Unreadable, match="no column 'Flow'; the file has Time, T supply, Leak"):
        decoded("Time,T supply,Leak\n1,2,3\n")


@pytest.mark.skipif(not DATASETS.is_dir(), reason="the shared corpus is not here")
def test_a_real_water_loop_comes_in_by_a_mapping() -> None:
    first = (DATASETS / "skab_valve1_0.csv").read_text().splitlines()[:2]
    cells = dict(zip(first[0].split(";"), first[1].split(";"), strict=True))
    mapping = ColumnMapping(
        table="coolant_loop", separator=";", constants={"cdu": "skab"},
        columns={"datetime": "time", "Thermocouple": "supply_celsius", "Volume Flow RateRMS": "flow_liters_per_minute",
                 "Pressure": "supply_pressure_kpa"},
        units={"supply_pressure_kpa": "bar"},
    )  # fmt: skip
    frame = rows(decoded((DATASETS / "skab_valve1_0.csv").read_bytes(), mapping))
    row = frame.row(0, named=True)
    assert row["time"].isoformat() == cells["datetime"].replace(" ", "T") + "+00:00"
    assert row["supply_celsius"] == float(cells["Thermocouple"])
    assert row["flow_liters_per_minute"] == float(cells["Volume Flow RateRMS"])
    assert row["supply_pressure_kpa"] == pytest.approx(100 * float(cells["Pressure"]))
