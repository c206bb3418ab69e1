"""mlxlink, UFM, SONiC's databases and gNMI: documents written by us on their grammar."""

import json
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest

from schemas.admission import admit
from schemas.formats import gnmi_event, mlxlink, sonic_redis, ufm_telemetry
from schemas.formats.decoded import Decoded, Surroundings, Unreadable
from schemas.tables import TABLE_BY_NAME

RECEIVED = datetime(2026, 8, 1, tzinfo=UTC)


def decoded(module, document: Any, node: str = "leaf-1") -> Decoded:
    data = json.dumps(document).encode()
    assert module.looks_like(data[:8192], "a.json")
    return module.decode(data, Surroundings(node=node, received_at=RECEIVED))


def rows(answer: Decoded, table: str = "fabric_port") -> pl.DataFrame:
    admitted = admit(TABLE_BY_NAME[table], answer.tables[table])
    assert (admitted.quarantined.height, admitted.ignored) == (0, {})
    return admitted.rows


def link(code: int = 0, **sections: Any) -> dict[str, Any]:
    message = "success" if code == 0 else "Failed to open device"
    output = {name.replace("_", " "): section for name, section in sections.items()}
    return {"result": {"output": output}, "status": {"code": code, "message": message}}


BER = "Physical Counters and BER Info"


def test_a_full_output_with_a_failed_status_is_not_believed() -> None:
    answer = decoded(mlxlink, link(1, Operational_Info={"State": "Active", "Speed": "400G", "Width": "4x"}))
    assert (answer.tables, answer.rejects["rule"].to_list()) == ({}, ["status|failed"])
    assert "Failed to open device" in answer.rejects["reason"][0]


def test_a_rate_of_zero_without_light_is_no_reading() -> None:
    module = {"Rx Power Current [dBm]": "-40.000,-40.000 [-9.9..7.0]", "SNR Media Lanes [dB]": {"values": ["0", "0"]}}
    document = link(Operational_Info={"State": "Active"}, Module_Info=module)
    document["result"]["output"][BER] = {"Raw Physical BER": "0", "Effective Physical BER": "15E-255"}
    answer = decoded(mlxlink, document)
    assert rows(answer).select("raw_bit_error_rate", "effective_bit_error_rate").row(0) == (None, None)
    assert rows(answer, "optic").select("light", "receive_power_dbm").rows() == [(False, None)] * 2
    assert "raw_bit_error_rate|dark" in answer.rejects["rule"].to_list()


def test_no_error_observed_on_a_lit_link_is_zero() -> None:
    document = link(Operational_Info={"State": "Active", "Speed": "IB-NDR", "Width": "4x"})
    document["result"]["output"][BER] = {"Raw Physical BER": "15E-255", "Time Since Last Clear [Min]": "2.5"}
    columns = ("raw_bit_error_rate", "rate_gigabits_per_second", "seconds_since_clear")
    assert rows(decoded(mlxlink, document)).select(columns).row(0) == (0.0, 400.0, 150.0)


def test_a_lane_that_the_module_says_has_lost_its_signal_is_dark_whatever_its_power() -> None:
    module = {"Rx Power Current [dBm]": "-35.1,1.5", "Rx LOS [per lane]": {"values": ["1", "0"]}}
    frame = rows(decoded(mlxlink, link(Module_Info=module)), "optic")
    assert frame.select("light", "receive_power_dbm").rows() == [(False, None), (True, 1.5)]


def test_bins_of_ranges_are_no_histogram() -> None:
    histogram = {"Header": {"values": ["Range", "Occurrences"]}, "Bin 0": {"values": ["[0:3]", "5"]}}
    answer = decoded(mlxlink, link(Histogram_of_FEC_Errors=histogram))
    assert "fec_histogram" not in rows(answer).drop_nulls("fec_histogram").rows(named=True)
    assert answer.rejects["rule"].to_list() == ["fec_histogram|type"]


def sample(**fields: Any) -> dict[str, Any]:
    return {"timestamp": 1709652347161873, "node_guid": "0xc42a103007ab890", "port_num": 1, **fields}


def test_in_a_sample_of_changes_what_is_not_there_is_unchanged() -> None:
    changes = {"type": "delta", "values": [sample(Infiniband_LinkDowned_u_Errors=4)]}
    answer = decoded(ufm_telemetry, changes)
    row = {name: value for name, value in rows(answer).row(0, named=True).items() if value is not None}
    assert row == {
        "time": datetime(2024, 3, 5, 15, 25, 47, 161873, tzinfo=UTC), "device": "0x0c42a103007ab890", "port": 1,
        "link_downed_total": 4,
    }  # fmt: skip
    assert answer.missing == ()
    full = decoded(ufm_telemetry, changes | {"type": "full"})
    assert "symbol_error_total" in full.missing


def test_low_frequency_fields_and_values_that_name_no_port() -> None:
    values = [
        sample(Total_Raw_BER="1.2E-9", Symbol_BER="15E-255", Effective_BER="N/A", Link_Down_IB=2),
        {"port_num": 1},
    ]
    answer = decoded(ufm_telemetry, {"type": "full", "values": values})
    columns = ("raw_bit_error_rate", "symbol_bit_error_rate", "effective_bit_error_rate", "link_downed_total")
    assert rows(answer).select(columns).rows() == [(1.2e-9, 0.0, None, 2)]
    assert answer.rejects["rule"].to_list() == ["port|absent", "effective_bit_error_rate|blank"]


REDIS = {
    "COUNTERS_PORT_NAME_MAP": {"type": "hash", "value": {"Ethernet0": "oid:0x1000000000012"}},
    "COUNTERS:oid:0x1000000000012": {
        "SAI_PORT_STAT_IF_IN_OCTETS": "5601804",
        "SAI_PORT_STAT_IF_IN_FEC_CORRECTABLE_FRAMES": "433513349",
        "SAI_PORT_STAT_IF_IN_FEC_NOT_CORRECTABLE_FRAMES": "N/A",
        "SAI_PORT_STAT_IF_IN_FEC_CODEWORD_ERRORS_S0": "9",
        "SAI_PORT_STAT_IF_IN_FEC_CODEWORD_ERRORS_S1": "3632",
    },
    "COUNTERS:oid:0x99": {"SAI_PORT_STAT_IF_IN_OCTETS": "1"},
    "COUNTERS:oid:0x15": {"SAI_QUEUE_STAT_BYTES": "1"},
    "PORT_TABLE:Ethernet0": {"oper_status": "up", "speed": "400000"},
    "RATES:oid:0x1000000000012": {"FEC_PRE_BER": "1.18e-12"},
    "TRANSCEIVER_DOM_SENSOR|Ethernet128": {
        "type": "hash",
        "value": {
            "rx1power": "-1.2dBm", "rx2power": "-40.0000", "rx3power": "-inf", "rx4power": "N/A",
            "temperature": "36.5C", "tx1power": "0.5", "tx1bias": "7.5mA", "voltage": "3.3Volts",
        },
    },
    "TRANSCEIVER_DOM_THRESHOLD|Ethernet128": {"rxpowerlowalarm": "-8.9008", "temphighalarm": "75.0"},
}  # fmt: skip


def test_sonic_databases_of_a_switch() -> None:
    answer = decoded(sonic_redis, REDIS)
    columns = (
        "device", "port", "state", "rate_gigabits_per_second", "receive_bytes_total", "fec_corrected_total",
        "fec_uncorrected_total", "fec_histogram", "raw_bit_error_rate",
    )  # fmt: skip
    assert rows(answer).select(columns).rows() == [
        ("leaf-1", 0, "active", 400.0, 5601804, 433513349, None, [9, 3632], 1.18e-12)
    ]
    columns = ("port", "lane", "light", "receive_power_dbm", "bias_milliamps", "supply_volts")
    assert rows(answer, "optic").select(columns).rows() == [
        (128, 0, True, -1.2, 7.5, 3.3), (128, 1, False, None, None, 3.3), (128, 2, False, None, None, 3.3),
    ]  # fmt: skip
    limits = rows(answer, "optic").select("receive_power_alarm_low_dbm", "temperature_alarm_high_celsius")
    assert set(limits.rows()) == {(-8.9008, 75.0)}
    assert answer.rejects["rule"].to_list() == ["fec_uncorrected_total|blank", "port|unnamed", "lane|blank"]


EVENTS = [
    {
        "name": "stats", "timestamp": "1791512362072293077",
        "tags": {"interface_name": "ethernet-1/11", "source": "leaf-9:57400"},
        "values": {
            "/srl_nokia-interfaces:interface/statistics/in-octets": "12",
            "/srl_nokia-interfaces:interface/statistics/in-error-packets": "NA",
            "/srl_nokia-interfaces:interface/oper-state": "down",
            "/other/leaf": "1",
        },
    },
    {
        "name": "optics", "timestamp": 1791512362072293077, "tags": {"component_name": "Ethernet48", "source": "leaf-9",
        "channel_index": "1"},
        "values": {
            "/components/component/transceiver/physical-channels/channel/state/input-power/instant": "-2.5",
            "/components/component/transceiver/physical-channels/channel/state/laser-bias-current/instant": 7,
        },
    },
]  # fmt: skip


def test_sonic_pause_frames_are_the_sum_of_the_priorities() -> None:
    counters = {
        "SAI_PORT_STAT_IF_OUT_OCTETS": "9",
        "SAI_PORT_STAT_PFC_3_RX_PKTS": "70",
        "SAI_PORT_STAT_PFC_4_RX_PKTS": "5",
    }
    document = {"COUNTERS_PORT_NAME_MAP": {"Ethernet0": "oid:0x1"}, "COUNTERS:oid:0x1": counters}
    row = rows(decoded(sonic_redis, document)).row(0, named=True)
    assert (row["pause_received_total"], row["pause_sent_total"]) == (75, None)
    counters["SAI_PORT_STAT_PFC_4_RX_PKTS"] = "N/A"
    assert rows(decoded(sonic_redis, document))["pause_received_total"].to_list() == [None]


def test_gnmi_events() -> None:
    answer = decoded(gnmi_event, EVENTS)
    columns = ("time", "device", "port", "state", "receive_bytes_total", "receive_error_total")
    time = datetime(2026, 10, 9, 2, 19, 22, 72293, tzinfo=UTC)
    assert rows(answer).select(columns).rows() == [(time, "leaf-9", 11, "down", 12, None)]
    columns = ("device", "port", "lane", "light", "receive_power_dbm", "bias_milliamps")
    assert rows(answer, "optic").select(columns).rows() == [("leaf-9", 48, 1, True, -2.5, 7.0)]
    assert answer.rejects["rule"].to_list() == ["receive_error_total|blank"]


def test_gnmi_notifications_line_by_line_with_split_paths_and_trees() -> None:
    state = {
        "source": "spine-1", "timestamp": 1716216021772041987, "prefix": "openconfig-interfaces:interfaces",
        "updates": [
            {"Path": "interface[name=Ethernet48]/state/counters",
             "values": {"interfaces/interface/state/counters": {"in-octets": "7", "in-errors": "1"}}},
            {"Path": "interface[name=Ethernet48]/state/oper-status",
             "values": {"interfaces/interface/state/oper-status": "UP"}},
            {"Path": "interface[name=Vlan-x]/state/oper-status/x", "values": {"state/oper-status": "UP"}},
        ],
    }  # fmt: skip
    data = b"\n".join([json.dumps(state).encode(), b'{"broken', json.dumps({"sync-response": True}).encode()])
    answer = gnmi_event.decode(data, Surroundings(received_at=RECEIVED))
    columns = ("device", "port", "state", "receive_bytes_total", "receive_error_total")
    assert ("spine-1", 48, "active", 7, 1) in rows(answer).select(columns).rows()
    assert "line|json" in answer.rejects["rule"].to_list()


@pytest.mark.parametrize("module", [gnmi_event, mlxlink, sonic_redis, ufm_telemetry], ids=lambda module: module.NAME)
@pytest.mark.parametrize("data", [b"", b"[]", b'{"a": 1}', b'"x"', b"[" * 100_000, b"\0"])
def test_other_documents_are_unreadable(module, data: bytes) -> None:
    assert not module.looks_like(data, "a.json")
    with pytest.raises(Unreadable, match=module.NAME):
        module.decode(data, Surroundings())
