"""Real captures of switches and HCAs. The numbers are read from the files by eye."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from pipelines.topics import HEAD_BYTES, recognise
from schemas.admission import admit
from schemas.formats import perfquery
from schemas.formats.decoded import Decoded, Surroundings, Unreadable
from schemas.tables import TABLE_BY_NAME

CORPUS = Path(__file__).parents[4] / "shared/corpus/switch"
RECEIVED = datetime(2026, 3, 1, tzinfo=UTC)

pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason="the shared corpus is not here")


def read(name: str, node: str | None = None) -> Decoded:
    """As a file is read: recognised, with its name as the host."""
    data = (CORPUS / name).read_bytes()
    form = recognise(name, data[:HEAD_BYTES])
    assert form is not None
    return form.decode(data, Surroundings(node=node or name.split(".", maxsplit=1)[0], received_at=RECEIVED))


def rows(decoded: Decoded, table: str) -> pl.DataFrame:
    admitted = admit(TABLE_BY_NAME[table], decoded.tables[table])
    assert (admitted.quarantined.height, admitted.ignored) == (0, {})
    return admitted.rows


def told(decoded: Decoded, table: str = "fabric_port", at: int = 0) -> dict[str, object]:
    return {name: value for name, value in rows(decoded, table).row(at, named=True).items() if value is not None}


def test_perfquery_x_of_a_switch_in_bytes_and_64_bits() -> None:
    assert told(read("perfquery_0x506b4b03005c2740.txt")) == {
        "time": RECEIVED, "device": "0x506b4b03005c2740", "port": 1, "counter_width": "extended",
        "transmit_bytes_total": 4 * 178791657177235, "receive_bytes_total": 4 * 178762341961629,
        "transmit_packets_total": 393094651266, "receive_packets_total": 387654829341,
        "symbol_error_total": 0, "link_error_recovery_total": 0, "link_downed_total": 1, "receive_error_total": 0,
        "receive_remote_physical_error_total": 0, "receive_switch_relay_error_total": 7,
        "transmit_discard_total": 20046, "transmit_constraint_error_total": 0, "receive_constraint_error_total": 0,
        "local_link_integrity_error_total": 0, "excessive_buffer_overrun_total": 0, "vl15_dropped_total": 0,
        "transmit_wait_total": 41864608,
    }  # fmt: skip


def test_perfquery_of_two_ports() -> None:
    frame = rows(read("perfquery_0x7cfe9003009ce5b0.txt"), "fabric_port")
    assert frame.select("device", "port", "receive_bytes_total", "transmit_wait_total").rows() == [
        ("0x7cfe9003009ce5b0", 1, 4 * 12279028775751, 22730501),
        ("0x7cfe9003009ce5b0", 2, 4 * 39078804993378, 36510964),
    ]


@pytest.mark.parametrize(
    ("name", "device", "sent", "errors"),
    [
        ("perfquery_0x7cfe9003003b4b96.txt", "0x7cfe9003003b4b96", 37108676853855, 13),
        ("perfquery_0x7cfe9003003b4bde.txt", "0x7cfe9003003b4bde", 9049592493976, 13),
        ("perfquery_e_x_mixed_2019.txt", "lid-21", 13672645927, 11),
    ],
)
def test_zeros_of_counters_that_capmask2_denies_are_no_readings(name: str, device: str, sent: int, errors: int) -> None:
    decoded = read(name)
    row = told(decoded)
    assert (row["device"], row["port"], row["transmit_bytes_total"]) == (device, 1, 4 * sent)
    assert not [column for column in row if "error" in column or "down" in column or "wait" in column]
    assert decoded.rejects["rule"].to_list() == ["counter|unsupported"]
    assert f"{errors} reading(s)" in decoded.rejects["reason"][0]


def test_a_query_without_an_answer_is_no_port_with_zeros() -> None:
    assert recognise("perfquery_0x506b4b0300cc02a6.txt", b"") is None
    with pytest.raises(Unreadable, match="perfquery: empty payload: the query had no answer"):
        perfquery.decode((CORPUS / "perfquery_0x506b4b0300cc02a6.txt").read_bytes(), Surroundings())


def test_ibqueryerrors_keeps_stuck_counters_and_leaves_the_sum_of_ports_out() -> None:
    decoded = read("ibqueryerrors_sx6036_2021.txt")
    frame = rows(decoded, "fabric_port")
    assert frame.select("device", "port").rows() == [
        ("dl380g7/hca0", 1), ("dl380g7/hca0", 2), ("server/hca0", 1), *(("ys23ib4", port) for port in range(9)),
        ("rd240/hca0", 1), ("rd240/hca0", 2),
    ]  # fmt: skip
    switch = frame.filter(device="ys23ib4")
    assert switch["link_downed_total"].to_list() == [None, 8, 5, 5, 8, 2, 9, 2, 9]
    assert switch["link_downed_total"].sum() == 48  # what "port ALL" says
    assert switch["symbol_error_total"].to_list() == [None] * 5 + [65535, None, 65535, None]
    assert switch["transmit_wait_total"][1] == 4294967295
    assert set(frame["counter_width"]) == {"classic"}
    assert (decoded.rejects.height, decoded.missing) == (0, ())


def test_ibqueryerrors_of_a_clean_node_says_nothing_and_invents_nothing() -> None:
    decoded = read("ibqueryerrors_clean_node_2022.txt")
    assert (decoded.tables, decoded.rejects.height, decoded.missing) == ({}, 0, ())


def test_sysfs_without_a_pma_has_no_counters() -> None:
    decoded = read("sysfs_na_no_pma_2018.txt", node="n1")
    assert told(decoded) == {"time": RECEIVED, "device": "n1/hca0", "port": 1, "counter_width": "classic"}
    assert decoded.rejects.height == 8  # ten lines, of which two are of multicast packets, which no column holds
    assert decoded.rejects["reason"].str.contains("N/A \\(no PMA\\)").all()


def test_ufm_counts_bytes_at_microseconds() -> None:
    decoded = read("ufm_telemetry_small.json")
    frame = rows(decoded, "fabric_port")
    assert set(frame["time"]) == {datetime(2024, 3, 5, 15, 25, 47, 161873, tzinfo=UTC)}
    columns = ("device", "port", "transmit_bytes_total", "link_downed_total", "receive_switch_relay_error_total")
    assert frame.select(columns).rows() == [
        ("0x0c42a103007ab890", 1, 4086720, 0, 0),
        ("0x248a070300ef19a0", 1, 4087008, 1, 0),
        ("0x248a070300ef19a0", 23, 70409952, 3, 18),
        ("0x248a070300ef19a0", 36, 10176480, 0, 0),
        ("0x7cfe900300292356", 1, 70412040, 0, 0),
        ("0xe41d2d030003e3b0", 36, 10176192, 0, 0),
    ]
    # One management packet: 256 bytes of MAD, LRH 8, BTH 12, DETH 8, ICRC 4.
    packet_bytes = frame["transmit_bytes_total"] / frame["transmit_packets_total"]
    assert packet_bytes.to_list() == [pytest.approx(288, rel=1e-4)] * 6
    assert decoded.rejects.is_empty()


def test_mlxlink_of_a_400g_module() -> None:
    decoded = read("mlxlink_mft-4.34.1-400g-dr4.json", node="n00012_mlx5_3")
    assert told(decoded) == {
        "time": RECEIVED, "device": "n00012/hca3", "port": 1, "state": "active", "rate_gigabits_per_second": 400.0,
        "width_lanes": 4, "link_downed_total": 0, "link_error_recovery_total": 0, "effective_error_total": 0,
        "raw_bit_error_rate": 5e-10, "effective_bit_error_rate": 0.0, "seconds_since_clear": pytest.approx(163086),
    }  # fmt: skip
    frame = rows(decoded, "optic")
    assert frame["receive_power_dbm"].to_list() == [3.583, 3.253, 3.233, 2.658]
    assert frame["transmit_power_dbm"].to_list() == [2.193, 1.202, 1.708, 1.274]
    assert frame["bias_milliamps"].to_list() == [265.504, 265.504, 248.416, 248.416]
    assert frame["raw_bit_error_rate"].to_list() == [1e-10, 1e-9, 4e-10, 5e-10]
    assert frame["raw_error_total"].to_list() == [3017647, 15132549, 7368641, 9233545]
    shared = (
        "light", "module_temperature_celsius", "supply_volts", "receive_power_alarm_low_dbm",
        "receive_power_alarm_high_dbm", "transmit_power_alarm_low_dbm", "bias_alarm_high_milliamps",
        "temperature_alarm_high_celsius", "signal_to_noise_db",
    )  # fmt: skip
    for row in frame.select(shared).rows():
        assert row == (True, 61.0, pytest.approx(3.2355), -9.914, 6.999, -6.904, 480.0, 80.0, None)


def test_the_fec_histogram_is_in_order_of_its_bins() -> None:
    row = told(read("mlxlink_mft-4.34.1-400g-eye.json"))
    assert row["fec_histogram"] == [26766318661536, 76439959, 9232, 204, 73, 2, 2, 1, 3, 0, 0, 0, 0, 0, 0, 0]
    assert row["fec_corrected_total"] == 76439959 + 9232 + 204 + 73 + 2 + 2 + 1 + 3


def test_mlxlink_without_readings_is_null_and_counted() -> None:
    decoded = read("mlxlink_na-fields.json")
    frame = rows(decoded, "optic")
    assert frame["bias_milliamps"].to_list() == [265.504, None, 248.416, 248.416]
    assert frame["receive_power_dbm"].to_list() == [None] * 4
    assert not {"raw_bit_error_rate", "effective_bit_error_rate", "effective_error_total"} & told(decoded).keys()
    reasons = dict(decoded.rejects.filter(table="optic").select("rule", "reason").rows())
    assert reasons["receive_power_dbm|blank"].startswith("receive_power_dbm: 4 reading(s) not reported")


def test_mlxlink_of_one_lane_and_without_a_module() -> None:
    assert rows(read("mlxlink_lanes-1x.json"), "optic")["lane"].to_list() == [0]
    assert read("mlxlink_missing-module-section.json").tables.keys() == {"fabric_port"}


def test_sonic_fec_statistics() -> None:
    decoded = read("sonic_fec_stats_pr3757_2025.txt", node="unknown")
    frame = rows(decoded, "fabric_port")
    assert set(frame["device"]) == {"sonic"}
    assert frame["port"].to_list() == [0, 8, 16, 24, 32, 40, 48]
    assert frame["fec_corrected_total"].to_list() == [56104, 205300, 948842, 279573, 2998448, 1356051, 48315381]
    assert frame["fec_symbol_error_total"][6] == 48308608
    assert frame["raw_bit_error_rate"].to_list() == [
        1.18e-12, 1.18e-12, 1.18e-11, 4.71e-12, 7.06e-11, 2.12e-11, 7.24e-10,
    ]  # fmt: skip
    assert (set(frame["effective_bit_error_rate"]), set(frame["state"])) == ({0.0}, {"active"})
    assert decoded.rejects.is_empty()


def test_six_lost_carriers_are_six_outages() -> None:
    frame = rows(read("ib_flap_1dev_6flap_syslog.log"), "fabric_port").sort("time")
    assert set(frame.select("device", "port").rows()) == {("jplc7eb7-vm-0/hca6", 1)}
    assert frame["state"].to_list() == ["active", "down"] * 6 + ["active"]
    first = datetime(2025, 8, 17, 6, 18, 1, tzinfo=UTC)
    assert frame["time"][1] == first
    assert all(
        timedelta(0) < time - first - timedelta(seconds=4.999) < timedelta(milliseconds=2) for time in frame["time"][2:]
    )
    assert frame["time"].n_unique() == frame.height


def test_a_syslog_without_lost_carriers_has_no_rows() -> None:
    assert read("ib_flap_0flap_syslog.log").tables == {}


def test_ibswinfo_gives_temperature_fans_and_supplies() -> None:
    decoded = read("ibswinfo_ok.txt")
    frame = decoded.tables["hardware_sensor"]
    assert frame["device"].unique().to_list() == ["0x1c34da0300010540"]
    by_name = {row["sensor"]: row for row in frame.to_dicts()}
    assert [by_name[f"fan#{at}"]["fan_rpm"] for at in range(1, 9)] == [8493, 7349, 8441, 7270, 8337, 7156, 8441, 7232]
    assert (by_name["temperature"]["temperature_celsius"], by_name["fan"]["health"]) == (45, "critical")
    assert [(by_name[psu]["watts"], by_name[psu]["health"]) for psu in ("PSU0", "PSU1")] == [(72, "ok"), (71, "ok")]
    assert decoded.rejects.is_empty()


def test_a_power_that_is_no_number_costs_itself() -> None:
    decoded = read("ibswinfo_error.txt")
    assert decoded.rejects.select("rule", "reason").rows() == [
        ("ibswinfo|value", "line 20: 0x1c34da0300010540: PSU0 power (W) is no number: 'foo'")
    ]
    supplies = decoded.tables["hardware_sensor"].filter(sensor="PSU0")
    assert (supplies["watts"].item(), supplies["health"].item()) == (None, "ok")
