"""ethtool's modules and the host's log: texts written by us on their grammar."""

from datetime import UTC, datetime

import polars as pl
import pytest

from schemas.admission import admit
from schemas.formats import ethtool_module, host_log
from schemas.formats.decoded import Decoded, Surroundings, Unreadable
from schemas.tables import TABLE_BY_NAME

RECEIVED = datetime(2026, 8, 1, tzinfo=UTC)


def decoded(text: str, node: str = "n1") -> Decoded:
    assert ethtool_module.looks_like(text.encode()[:8192], "a.txt")
    return ethtool_module.decode(text.encode(), Surroundings(node=node, received_at=RECEIVED))


def rows(answer: Decoded, table: str) -> pl.DataFrame:
    admitted = admit(TABLE_BY_NAME[table], answer.tables[table])
    assert (admitted.quarantined.height, admitted.ignored) == (0, {})
    return admitted.rows


QSFP = """# ethtool -m swp13
	Identifier                                : 0x11 (QSFP28)
	Module temperature                        : 42.17 degrees C / 107.90 degrees F
	Module voltage                            : 3.2917 V
	Laser tx bias current (Channel 1)         : 6.662 mA
	Laser tx bias current (Channel 2)         : 0.000 mA
	Transmit avg optical power (Channel 1)    : 0.7119 mW / -1.48 dBm
	Transmit avg optical power (Channel 2)    : 0.0000 mW / -inf dBm
	Rcvr signal avg optical power(Channel 1)  : 0.7682 mW / -1.15 dBm
	Rcvr signal avg optical power(Channel 2)  : 0.0001 mW / -40.00 dBm
	Laser bias current high alarm   (Chan 1)  : Off
	Laser bias current high alarm threshold   : 12.000 mA
	Laser rx power low alarm threshold        : 0.1288 mW / -8.90 dBm
	Laser rx power low warning threshold      : 0.2042 mW / -6.90 dBm
	Laser output power low alarm threshold    : 0.0000 mW / -inf dBm
	Module temperature high alarm threshold   : 0.00 degrees C / 32.00 degrees F
"""


def test_ethtool_of_a_module_with_a_dark_lane_and_its_own_limits() -> None:
    answer = decoded(QSFP, node="leaf-1")
    columns = (
        "device", "port", "lane", "light", "receive_power_dbm", "transmit_power_dbm", "bias_milliamps",
        "module_temperature_celsius", "supply_volts", "receive_power_alarm_low_dbm", "receive_power_warning_low_dbm",
        "bias_alarm_high_milliamps", "temperature_alarm_high_celsius", "transmit_power_alarm_low_dbm",
    )  # fmt: skip
    shared = (42.17, 3.2917, -8.9, -6.9, 12.0, None, None)
    assert rows(answer, "optic").select(columns).rows() == [
        ("leaf-1", 13, 0, True, -1.15, -1.48, 6.662, *shared),
        ("leaf-1", 13, 1, False, None, None, 0.0, *shared),
    ]


def test_ethtool_of_an_sfp_and_of_copper() -> None:
    text = """	Identifier                                : 0x03 (SFP)
	Laser bias current                        : 6.986 mA
	Laser output power                        : 0.4678 mW / -3.30 dBm
	Receiver signal average optical power     : 0.5012 mW / -3.00 dBm
"""
    frame = rows(decoded(text, node="leaf-1_Ethernet48"), "optic")
    assert frame.select("device", "port", "lane", "receive_power_dbm").rows() == [("leaf-1", 48, 0, -3.0)]
    copper = decoded("	Identifier    : 0x11 (QSFP28)\n	Module voltage : 0.0000 V\n")
    assert (copper.tables, copper.rejects["rule"].to_list()) == ({}, ["optic|absent"])


def test_a_carrier_that_comes_back_is_one_outage_and_other_interfaces_are_left() -> None:
    lines = ["ib0: Gained carrier", "ib0: Lost carrier", "eth0: Lost carrier", "ib0: Gained carrier"]
    text = "\n".join(f"2026-07-01T00:00:0{at}Z n7 systemd-networkd[9]: {line}" for at, line in enumerate(lines))
    frame = rows(host_log.decode(text.encode(), Surroundings()), "fabric_port")
    assert frame.select("device", "state").rows() == [("n7/hca0", state) for state in ("active", "down", "active")]
    assert [time.second for time in frame["time"]] == [0, 1, 3]


def test_a_host_log_still_tells_of_gpus() -> None:
    text = "Aug  1 00:00:00 n7 kernel: NVRM: Xid (PCI:0000:9B:00): 48, DBE\nAug  1 00:00:01 n7 x: ib0: lost carrier\n"
    answer = host_log.decode(text.encode(), Surroundings(received_at=RECEIVED))
    assert answer.tables.keys() == {"gpu_event", "fabric_port"}


@pytest.mark.parametrize("data", [b"", b"hello\nworld\n", b"\0\1\2", b"{}"])
def test_what_is_no_module_is_unreadable(data: bytes) -> None:
    assert not ethtool_module.looks_like(data, "a.txt")
    with pytest.raises(Unreadable, match=ethtool_module.NAME):
        ethtool_module.decode(data, Surroundings())
