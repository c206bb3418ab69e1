"""Damaged samples of every fabric format: rows, rejects or Unreadable in one line, and nothing else."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.topics import FORMATS
from schemas.admission import admit
from schemas.formats.decoded import Surroundings, Unreadable
from schemas.tables import TABLE_BY_NAME

MLXLINK = {
    "result": {"output": {
        "Operational Info": {"State": "Active", "Speed": "400G", "Width": "4x", "Physical state": "LinkUp"},
        "Module Info": {"Rx Power Current [dBm]": "3.5,-40.0 [-9.9..6.9]", "Bias Current [mA]": "265.5,N/A [40..480]",
                        "Rx LOS [per lane]": {"values": ["0", "1"]}, "Temperature [C]": "61 [-10..80]"},
        "Physical Counters and BER Info": {"Raw Physical BER": "15E-255", "Link Down Counter": "255",
                                           "Raw Physical BER Per Lane": {"values": ["1E-10", "0"]}},
        "Histogram of FEC Errors": {"Bin 0": {"values": ["[0]", "26766318661536"]}},
    }},
    "status": {"code": 0},
}  # fmt: skip
UFM = {"type": "full", "timestamp": "2024-03-05 16:26:11", "values": [
    {"timestamp": 1709652347161873, "node_guid": "0x0c42a103007ab890", "port_num": 1, "Total_Raw_BER": "1E-9",
     "Infiniband_MBOut_u_Gb": 4086720, "logical_state": "Active", "Node_Description": "n1 mlx5_0"}]}  # fmt: skip
REDIS = {
    "COUNTERS_PORT_NAME_MAP": {"type": "hash", "value": {"Ethernet0": "oid:0x10"}},
    "COUNTERS:oid:0x10": {"SAI_PORT_STAT_IF_IN_OCTETS": "56", "SAI_PORT_STAT_IF_IN_FEC_CODEWORD_ERRORS_S0": "9"},
    "PORT_TABLE:Ethernet0": {"oper_status": "up", "speed": "400000"},
    "TRANSCEIVER_DOM_SENSOR|Ethernet0": {"rx1power": "-1.2dBm", "rx2power": "-inf", "temphighalarm": "75"},
}
GNMI = [
    {"name": "s", "timestamp": "1791512362072293077", "tags": {"interface_name": "Ethernet48", "source": "leaf-9:5"},
     "values": {"/interfaces/interface/state/counters/in-octets": "12", "/i/interface/state/oper-status": "UP",
                "/c/channel/state/input-power/instant": "-2.5"}}
]  # fmt: skip
SAMPLES = {
    "perfquery": """# Port extended counters: Lid 2052 port 1 (CapMask: 0x5300 CapMask2:
0x0000002)
PortSelect:......................1
PortXmitData:....................178791657177235
LinkDownedCounter:...............255
# Port counters: Lid 2052 port 2 (CapMask: 0x5300)
SymbolErrorCounter:..............65535
""",
    "ibqueryerrors": """Errors for 0x2c903006e29b0 "MF0;sw1:MQM8700/U1"
   GUID 0x2c903006e29b0 port ALL: [LinkDownedCounter == 300]
   GUID 0x2c903006e29b0 port 3: [SymbolErrorCounter == 65535 (63.999K)] [PortXmitData == 6399401 (24.412MB)]
      Link info:     12    3[  ] ==( 4X      53.125  Gbps Active/  LinkUp)==>  0x1      7    1[  ] "n1 mlx5_0" ( )
src/query_smp.c:199; umad (DR path slid 65535) bad status 110; Connection timed out
""",
    "iblinkinfo": """CA: o0001 HCA-1:
      0x7cfe9003003b4bde    134    1[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>    1719   10[  ] "ib" ( )
        1719   12[  ] ==(                Down/ Polling)==>             [  ] "" ( )
""",
    "ibswinfo": "part number        | MSB7790\nfirmware version  | 11.2\nPSU0 status  | OK\ntemperature (C)  | 45\n",
    "InfiniBand sysfs": """/sys/class/infiniband/mlx5_3/ports/1/rate:400 Gb/sec (4X NDR)
/sys/class/infiniband/mlx5_3/ports/1/state:4: ACTIVE
/sys/class/infiniband/mlx5_3/ports/1/counters/port_xmit_data:100
/sys/class/infiniband/mlx5_3/ports/1/counters/link_downed:N/A (no PMA)
""",
    "infiniband_exporter text": """infiniband_switch_info{guid="0x506b4b03005c2740",lid="2052",switch="ib"} 1
infiniband_switch_port_link_downed_total{guid="0x506b4b03005c2740",port="1"} 1
infiniband_hca_port_transmit_data_bytes_total{guid="0x7cfe9003003b4b96",port="1"} 7.1e+14
infiniband_hca_rate_bytes_per_second{guid="0x7cfe9003003b4b96"} 1.25e+10
infiniband_speed{component="switch",local_name="sw",local_guid="0xb8",local_port="3"} 53.125
infiniband_width{component="switch",local_name="sw",local_guid="0xb8",local_port="3"} 4
""",
    "SONiC FEC statistics": """root@leaf:~# show interfaces counters fec-stats
  IFACE    STATE    FEC_CORR    FEC_UNCORR    FEC_PRE_BER
Ethernet0        U      56,104             0     1.18e-12
""",
    "ethtool -m text": """# ethtool -m swp13
	Identifier                                : 0x11 (QSFP28)
	Module voltage                            : 3.2917 V
	Laser tx bias current (Channel 1)         : 6.662 mA
	Rcvr signal avg optical power(Channel 1)  : 0.7682 mW / -1.15 dBm
	Laser rx power low alarm threshold        : 0.1288 mW / -8.90 dBm
""",
    "mlxlink JSON": json.dumps(MLXLINK),
    "UFM telemetry JSON": json.dumps(UFM),
    "SONiC Redis JSON": json.dumps(REDIS),
    "gNMI JSON": json.dumps(GNMI),
    "kernel log": """Aug 17 06:18:01 n7 systemd-networkd[5398]: ib6: lost carrier
[  12.345678] n7: ib6: lost carrier
2026-07-01T00:00:03Z n7 systemd-networkd[9]: mlx5_3: Gained carrier
""",
}
BY_NAME = {form.name: form for form in FORMATS}
SPLICES = [
    b"9" * 25, b"-1", b"1e308", b"1E999", b"NaN", b"-inf", b"N/A", b"null", b"[]", b"{}", b'"', b"\\", b"\n", b"\0",
    b"0x", b"\xff\xfe", b":", b"=", b"port 255", b"\xd9\xa3", b"true", b"1" * 400, b"0000-00-00",
]  # fmt: skip


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_recognised_and_read(name: str) -> None:
    data = SAMPLES[name].encode()
    form = next(form for form in FORMATS if form.looks_like(data, f"n7_{'syslog' if name == 'kernel log' else 'x'}"))
    assert form.name == name
    decoded = form.decode(data, Surroundings())
    assert decoded.tables or decoded.rejects.height
    assert form.versions
    assert form.leaves


@pytest.mark.parametrize("name", SAMPLES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_damage_gives_rows_rejects_or_unreadable_and_nothing_else(name: str, data: st.DataObject) -> None:
    damaged = bytearray(SAMPLES[name].encode())
    for at in data.draw(st.lists(st.integers(0, len(damaged) - 1), max_size=4)):
        damaged[at : at + data.draw(st.integers(0, 8))] = data.draw(st.binary(max_size=4) | st.sampled_from(SPLICES))
    _judge(name, bytes(damaged[: data.draw(st.integers(0, len(damaged)))]))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.sampled_from(["N/A", "-inf", "15E-255", "1,2 [3..4]", "9" * 30, "0x" + "f" * 16, "Ethernet0", "٣"])
    | st.sampled_from([10**400, -(10**50)]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["values", "a", "type"]), inner),
    max_leaves=4,
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "document"),
    [("mlxlink JSON", MLXLINK), ("UFM telemetry JSON", UFM), ("SONiC Redis JSON", REDIS), ("gNMI JSON", GNMI)],
)
@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_values_of_any_shape_are_taken_or_refused(name: str, document: Any, data: st.DataObject) -> None:
    changed = json.loads(json.dumps(document))
    for _ in range(data.draw(st.integers(1, 3))):
        inside = changed
        while True:
            keys = list(inside) if isinstance(inside, dict) else list(range(len(inside)))
            if not keys:
                break
            key = data.draw(st.sampled_from(keys))
            if isinstance(inside[key], dict | list) and data.draw(st.integers(0, 5)):
                inside = inside[key]
                continue
            inside[key] = data.draw(VALUES)
            break
    _judge(name, json.dumps(changed).encode("utf-8", errors="surrogatepass"))


def _judge(name: str, payload: bytes) -> None:
    try:
        decoded = BY_NAME[name].decode(payload, Surroundings(node="n7"))
    except Unreadable as error:
        reason = str(error)
        assert "\n" not in reason
        return
    for table, frame in decoded.tables.items():
        refused = admit(TABLE_BY_NAME[table], frame).quarantined
        assert refused.is_empty(), refused["rule"].to_list()
    assert not decoded.rejects["reason"].str.contains("\n").any()
