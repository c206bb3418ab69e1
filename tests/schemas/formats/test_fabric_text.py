"""perfquery, ibqueryerrors, iblinkinfo, sysfs, exporters, SONiC's table: texts written by us on their grammar."""

from datetime import UTC, datetime

import polars as pl
import pytest

from schemas.admission import admit
from schemas.formats import (
    iblinkinfo,
    ibqueryerrors,
    infiniband_exporter,
    infiniband_sysfs,
    perfquery,
    sonic_fec,
)
from schemas.formats.decoded import Decoded, Surroundings, Unreadable
from schemas.tables import TABLE_BY_NAME

RECEIVED = datetime(2026, 8, 1, tzinfo=UTC)


def decoded(module, text: str, node: str = "n1") -> Decoded:
    assert module.looks_like(text.encode()[:8192], "a.txt")
    return module.decode(text.encode(), Surroundings(node=node, received_at=RECEIVED))


def rows(answer: Decoded, table: str = "fabric_port") -> pl.DataFrame:
    admitted = admit(TABLE_BY_NAME[table], answer.tables[table])
    assert (admitted.quarantined.height, admitted.ignored) == (0, {})
    return admitted.rows


def perf(kind: str = "Port extended", port: int = 1, mask2: str | None = "0x0000002", **counters: object) -> str:
    capabilities = f" (CapMask: 0x5300{'' if mask2 is None else f' CapMask2: {mask2}'})"
    lines = [f"{name}:{'.' * (33 - len(name))}{value}" for name, value in counters.items()]
    return "\n".join([f"# {kind} counters: Lid 7 port {port}{capabilities}", f"PortSelect:......{port}", *lines, ""])


def test_classic_counters_stay_at_their_top_and_say_so() -> None:
    text = perf("Port", mask2=None, SymbolErrorCounter=65535, LinkDownedCounter=255, PortXmitData=4294967295)
    row = rows(decoded(perfquery, text)).row(0, named=True)
    assert (row["counter_width"], row["symbol_error_total"], row["link_downed_total"]) == ("classic", 65535, 255)
    assert row["transmit_bytes_total"] == 4 * 4294967295


def test_the_same_number_in_64_bits_is_a_count() -> None:
    row = rows(decoded(perfquery, perf(SymbolErrorCounter=65535))).row(0, named=True)
    assert (row["counter_width"], row["symbol_error_total"]) == ("extended", 65535)


def test_a_count_of_a_port_that_denies_the_counter_is_believed_a_zero_is_not() -> None:
    answer = decoded(perfquery, perf(mask2="0x0000000", SymbolErrorCounter=3, LinkDownedCounter=0))
    assert rows(answer).select("symbol_error_total", "link_downed_total").row(0) == (3, None)


def test_the_sum_of_all_ports_is_no_port() -> None:
    answer = decoded(perfquery, perf(port=255, LinkDownedCounter=9) + perf(port=2, LinkDownedCounter=1))
    assert rows(answer).select("device", "port", "link_downed_total").rows() == [("lid-7", 2, 1)]
    assert answer.rejects["rule"].to_list() == ["port|aggregate"]


def test_error_details_join_the_counters_of_their_port() -> None:
    text = perf(LinkDownedCounter=1) + "# PortRcvErrorDetails counters: Lid 7 port 1\nPortLocalPhysicalErrors:.....4\n"
    columns = ("link_downed_total", "receive_local_physical_error_total", "counter_width")
    assert rows(decoded(perfquery, text)).select(columns).rows() == [(1, 4, "extended")]


def test_a_second_answer_of_one_port_in_a_file_is_counted_not_mixed() -> None:
    answer = decoded(perfquery, perf(LinkDownedCounter=1) + perf(LinkDownedCounter=2))
    assert rows(answer)["link_downed_total"].to_list() == [1]
    assert answer.rejects["rule"].to_list() == ["link_downed_total|repeated"]


def test_a_counter_over_64_bits_in_bytes_is_null_and_counted() -> None:
    answer = decoded(perfquery, perf(PortXmitData=2**64 - 1, PortRcvData=5))
    assert rows(answer).select("transmit_bytes_total", "receive_bytes_total").row(0) == (None, 20)
    assert answer.rejects["rule"].to_list() == ["transmit_bytes_total|range"]


ERRORS = """Errors for 0x2c903006e29b0 "MF0;sw1:MQM8700/U1"
   GUID 0x2c903006e29b0 port ALL: [LinkDownedCounter == 300]
   GUID 0x2c903006e29b0 port 3: [SymbolErrorCounter == 65535 (63.999K)] [PortXmitData == 6399401 (24.412MB)]
      Link info:     12    3[  ] ==( 4X      53.125  Gbps Active/  LinkUp)==>  0x1      7    1[  ] "n1 mlx5_0" ( )
   GUID 0x2c903006e29b0 port 4: [LinkDownedCounter == 300]
src/query_smp.c:199; umad (DR path slid 65535; dlid 65535; 0,1 Attr 0x11:0) bad status 110; Connection timed out
ibwarn: [5] query_and_dump: PortXmitDiscardDetails query failed on sw9, Lid 4 port 5
## Summary: 2 nodes checked, 1 bad nodes found
"""


def test_ibqueryerrors_with_data_ports_and_failures() -> None:
    answer = decoded(ibqueryerrors, ERRORS)
    columns = ("device", "port", "symbol_error_total", "transmit_bytes_total", "link_downed_total", "counter_width")
    assert rows(answer).select(columns).rows() == [
        ("sw1", 3, 65535, 25597604, None, "extended"),  # 24.412 MiB, as the tool rounds it
        ("sw1", 4, None, None, 300, "extended"),
    ]
    link = rows(answer).select("state", "rate_gigabits_per_second", "width_lanes").row(0)
    assert link == ("active", 200.0, 4)
    assert answer.rejects["rule"].to_list() == ["query|failed", "query|failed"]


LINKS = """CA: o0001 HCA-1:
      0x7cfe9003003b4bde    134    1[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>    1719   10[  ] "ib" ( )
Switch: 0x7cfe9003009ce5b0 MF0;ib-i1l1s01:MSB7700/U1:
        1719   10[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>     134    1[  ] "o0001 HCA-1" ( )
        1719   11[  ] ==( 1X        106.25 Gbps Active/  LinkUp)==>     135    1[  ] "o0002 HCA-1" ( Could be 4X)
        1719   12[  ] ==(                Down/ Polling)==>             [  ] "" ( )
        1719   13[  ] ==(                Down/Disabled)==>             [  ] "" ( )
        1719   14[  ] ==( 4X        106.25 Gbps Initialize/  LinkUp)==>  9  1[  ] "o0003 HCA-1" ( )
"""


def test_iblinkinfo_by_node() -> None:
    columns = ("device", "port", "state", "physical_state", "rate_gigabits_per_second", "width_lanes")
    assert rows(decoded(iblinkinfo, LINKS)).select(columns).rows() == [
        ("o0001/hca0", 1, "active", "link_up", 100.0, 4),
        ("ib-i1l1s01", 10, "active", "link_up", 100.0, 4),
        ("ib-i1l1s01", 11, "active", "link_up", 100.0, 1),
        ("ib-i1l1s01", 12, "down", "polling", None, None),
        ("ib-i1l1s01", 13, "down", "disabled", None, None),
        ("ib-i1l1s01", 14, "init", "link_up", 400.0, 4),
    ]


def test_iblinkinfo_of_one_line_a_link() -> None:
    line = (
        '0x7cfe9003009ce5b0 "     leaf-1"   17   10[  ] ==( 4X  106.25 Gbps Active/  LinkUp)==> 0x1  134  1[  ] "x" ( )'
    )
    assert rows(decoded(iblinkinfo, line)).select("device", "port").rows() == [("leaf-1", 10)]


TREE = """/sys/class/infiniband/mlx5_3/ports/1/rate:400 Gb/sec (4X NDR)
/sys/class/infiniband/mlx5_3/ports/1/state:4: ACTIVE
/sys/class/infiniband/mlx5_3/ports/1/phys_state:5: LinkUp
/sys/class/infiniband/mlx5_3/ports/1/counters/link_downed:255
/sys/class/infiniband/mlx5_3/ports/1/counters/port_xmit_data:100
/sys/class/infiniband/mlx5_3/ports/1/hw_counters/out_of_sequence:7
/sys/class/infiniband/mlx5_3/node_guid:0c42:a103:007a:b890
/sys/class/infiniband/mlx5_4/ports/1/rate:10 Gb/sec (4X SDR)
/sys/class/infiniband/mlx5_4/ports/1/state:1: DOWN
/sys/class/infiniband/mlx5_4/ports/1/phys_state:3: Disabled
grep: /sys/class/infiniband/mlx5_4/ports/1/gids/9: Invalid argument
"""


def test_sysfs_keeps_a_stuck_counter_and_gives_a_dead_link_no_rate() -> None:
    answer = decoded(infiniband_sysfs, TREE)
    columns = (
        "device", "port", "state", "physical_state", "rate_gigabits_per_second", "width_lanes", "counter_width",
        "link_downed_total", "transmit_bytes_total",
    )  # fmt: skip
    assert rows(answer).select(columns).rows() == [
        ("n1/hca3", 1, "active", "link_up", 400.0, 4, "classic", 255, 400),
        ("n1/hca4", 1, "down", "disabled", None, None, None, None, None),
    ]
    assert answer.rejects["rule"].to_list() == ["line|path"]


TREYDOCK = """# TYPE infiniband_exporter_collect_errors gauge
infiniband_exporter_collect_errors{collector="switch"} 2
infiniband_exporter_collect_timeouts{collector="switch"} 0
infiniband_switch_info{guid="0x506b4b03005c2740",lid="2052",switch="ib-i4l1s01"} 1
infiniband_switch_port_link_downed_total{guid="0x506b4b03005c2740",port="1"} 1
infiniband_switch_port_transmit_data_bytes_total{guid="0x506b4b03005c2740",port="1"} 7.15166628708940e+14
infiniband_switch_port_rate_bytes_per_second{guid="0x506b4b03005c2740",port="35"} 1.25e+10
infiniband_hca_info{guid="0x7cfe9003003b4b96",hca="o0002 HCA-1",lid="133"} 1
infiniband_hca_port_symbol_error_total{guid="0x7cfe9003003b4b96",port="1"} NaN
infiniband_hca_rate_bytes_per_second{guid="0x7cfe9003003b4b96"} 1.25e+10
infiniband_hca_port_link_downed_total{guid="0x7cfe9003003b4b97",port="1"} -1
go_goroutines 4
"""


def test_an_exporter_on_perfquery_counts_bytes_in_64_bits() -> None:
    answer = decoded(infiniband_exporter, TREYDOCK)
    columns = (
        "device",
        "port",
        "counter_width",
        "link_downed_total",
        "transmit_bytes_total",
        "rate_gigabits_per_second",
    )
    assert rows(answer).select(columns).rows() == [
        ("ib-i4l1s01", 1, "extended", 1, 715166628708940, None),
        ("ib-i4l1s01", 35, None, None, None, 100.0),
        ("o0002/hca0", 1, None, None, None, 100.0),
        ("0x7cfe9003003b4b97", 1, None, None, None, None),
    ]
    assert answer.rejects["rule"].to_list() == [
        "exporter|failed", "symbol_error_total|blank", "link_downed_total|range",
    ]  # fmt: skip


GUILBAULTS = """infiniband_portxmitdata_total{component="switch",local_name="MF0;sw1:MQM8700/U1",local_guid="0xb8",local_port="3",remote_name="n1 mlx5_0"} 6399401
infiniband_speed{component="switch",local_name="MF0;sw1:MQM8700/U1",local_guid="0xb8",local_port="3"} 53.125
infiniband_width{component="switch",local_name="MF0;sw1:MQM8700/U1",local_guid="0xb8",local_port="3"} 4
infiniband_linkdownedcounter_total{component="ca",local_name="n1 mlx5_0",local_guid="0x1",local_port="1"} 255
infiniband_scrape_ok 0
"""  # noqa: E501  lines of an exporter


def test_an_exporter_on_ibqueryerrors_counts_words_of_a_width_it_does_not_tell() -> None:
    answer = decoded(infiniband_exporter, GUILBAULTS)
    columns = (
        "device",
        "port",
        "counter_width",
        "link_downed_total",
        "transmit_bytes_total",
        "rate_gigabits_per_second",
    )
    assert rows(answer).select(columns).rows() == [
        ("sw1", 3, None, None, 4 * 6399401, 200.0),
        ("n1/hca0", 1, None, 255, None, None),
    ]
    assert answer.rejects["rule"].to_list() == ["exporter|failed"]


def test_sonic_cells_that_are_not_there_and_rates_of_a_dead_port() -> None:
    text = """  IFACE    STATE    FEC_CORR    FEC_UNCORR    FEC_SYMBOL_ERR    FEC_PRE_BER    FEC_POST_BER
-------  -------  ----------  ------------  ----------------  -------------  --------------
Ethernet0        D         N/A             0                 0       0.00e+00        0.00e+00
Ethernet8        U   1,000,000             0                 1       0.00e+00        0.00e+00
broken
"""
    answer = decoded(sonic_fec, text, node="leaf-1")
    columns = ("device", "port", "state", "fec_corrected_total", "raw_bit_error_rate")
    assert rows(answer).select(columns).rows() == [
        ("leaf-1", 0, "down", None, None), ("leaf-1", 8, "active", 1000000, 0.0),
    ]  # fmt: skip
    assert answer.rejects["rule"].to_list() == [
        "line|row", "fec_corrected_total|blank", "raw_bit_error_rate|dark", "effective_bit_error_rate|dark",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "module",
    [iblinkinfo, ibqueryerrors, infiniband_exporter, infiniband_sysfs, perfquery, sonic_fec],
    ids=lambda module: module.NAME,
)
@pytest.mark.parametrize("data", [b"", b"hello\nworld\n", b"\0\1\2", b"{}"])
def test_what_is_of_no_such_tool_is_unreadable(module, data: bytes) -> None:
    assert not module.looks_like(data, "a.txt")
    with pytest.raises(Unreadable, match=module.NAME):
        module.decode(data, Surroundings())
