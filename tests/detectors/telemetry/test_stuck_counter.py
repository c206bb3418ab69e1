import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.contract import Context
from detectors.telemetry.stuck_counter import StuckCounter
from schemas.fabric import FabricPort
from schemas.gpu import Gpu
from schemas.topology import NODE_COLUMNS, topology_from_frames
from tests.detectors.timelines import T0, assert_cuts_change_nothing, at, cutting, rows, run, said

# A cable from port 5 of leaf-001 to the HCA of n1.
CABLE = topology_from_frames(
    "one cable", pl.DataFrame(schema=NODE_COLUMNS),
    pl.DataFrame({"cable": ["c1"], "a": ["leaf-001"], "a_port": [5], "b": ["n1/hca0"], "b_port": [1]}),
)  # fmt: skip


def gpu(stuck, *, ends=300, slot=0, power=700.0, wavers=True, begin=1e6):
    """Energy every ten seconds, which stands still in the seconds of `stuck`; power wavers by a watt."""
    energy, found = begin, []
    for second in range(0, ends, 10):
        energy += 0.0 if second in stuck else 10 * power
        watts = power + (second // 10 % 2 if wavers else 0)
        found.append(
            {"time": second, "node": "n1", "gpu": slot, "energy_joules_total": energy, "power_watts": watts}
        )  # fmt: skip
    return found


def judge(*given_rows, ends=300, detector=None):
    return run(detector or StuckCounter(), {Gpu: rows(Gpu, *given_rows)}, ends)[0]


def test_energy_that_stands_while_the_power_goes_on_is_stuck_until_it_counts():
    found = judge(*gpu(range(100, 200)))
    assert said(found, "cause", "kind", "entity", "code", "severity", "active", "action") == [
        (160.0, "counter_stuck", "source", "gpu:n1", "energy_joules_total", "ticket", True, "open_ticket"),
        (200.0, "counter_stuck", "source", "gpu:n1", "energy_joules_total", "ticket", False, None),
    ]


def test_a_minute_is_waited_for():
    assert judge(*gpu(range(100, 160))).is_empty()
    assert not judge(*gpu(range(100, 160)), detector=StuckCounter(for_seconds=40.0)).is_empty()


def test_a_gpu_that_idles_must_count_and_one_without_power_need_not():
    assert not judge(*gpu(range(100, 300), power=88.0)).is_empty()
    assert judge(*gpu(range(100, 300), power=20.0)).is_empty()


def test_a_row_that_repeats_itself_wholly_is_frozen_and_not_this():
    assert judge(*gpu(range(100, 300), wavers=False)).is_empty()


def test_a_counter_that_has_never_counted_is_not_supported():
    assert judge(*gpu(range(300))).is_empty()


def test_a_counter_that_begins_anew_counts():
    assert judge(
        *gpu((), ends=100), *[{**row, "time": row["time"] + 100} for row in gpu((), ends=200, begin=0)]
    ).is_empty()


def test_two_gpus_of_a_host_are_one_statement():
    found = judge(*gpu(range(100, 200)), *gpu(range(120, 230), slot=1))
    assert said(found, "active") == [(160.0, True), (230.0, False)]


def test_rows_every_second_are_looked_at_every_ten():
    found = [{**row, "time": row["time"] + k} for row in gpu(range(100, 300)) for k in range(10)]
    assert said(judge(*found), "active") == [(160.0, True)]


def test_what_happens_between_two_looks_is_seen_at_the_second():
    # It stands from 103 s on: 110 s is still more than 100 s, and 120 s is no more than 110 s.
    found = [{"time": second, "node": "n1", "gpu": 0, "energy_joules_total": 1e6 + 700.0 * min(second, 103),
              "power_watts": 700.0 + second // 10 % 2} for second in range(300)]  # fmt: skip
    assert said(judge(*found), "active") == [(180.0, True)]


def port(device, number, sent, received, *, packets=None, corrected=None, rate=3e-9, state="active", every=30):
    """Growth of both directions in each sample; packets sent and corrected codewords if given."""
    totals = {"transmit_bytes_total": 10**9, "receive_bytes_total": 10**9}
    found = []
    for k, grown in enumerate(zip(sent, received, strict=True)):
        totals = {name: before + more for (name, before), more in zip(totals.items(), grown, strict=True)}
        more = {"transmit_packets_total": None if packets is None else packets * k} | (
            {} if corrected is None else {"fec_corrected_total": corrected[k]}
        )
        found.append(
            {"time": every * k, "device": device, "port": number, "state": state, "raw_bit_error_rate": rate,
             "rate_gigabits_per_second": 400.0, **totals, **more}
        )  # fmt: skip
    return found


def judge_ports(*given_rows, ends=400):
    return run(StuckCounter(), {FabricPort: rows(FabricPort, *given_rows)}, ends, topology=CABLE)[0]


BUSY = [10**10] * 12
STANDS = [10**10] * 4 + [0] * 8


def test_bytes_sent_that_stand_while_the_far_end_receives_are_stuck():
    found = judge_ports(*port("leaf-001", 5, STANDS, BUSY), *port("n1/hca0", 1, BUSY, BUSY))
    assert said(found, "entity", "code") == [(240.0, "fabric_port:leaf-001", "transmit_bytes_total")]


def test_a_port_is_waited_for_as_long_as_its_finding_says():
    ports = (*port("leaf-001", 5, STANDS, BUSY), *port("n1/hca0", 1, BUSY, BUSY))
    assert judge_ports(*ports)["threshold"].to_list() == [120.0], "four intervals of 30 s"
    assert judge(*gpu(range(100, 300)))["threshold"].to_list() == [60.0]


def test_ports_whose_interval_the_source_does_not_name_are_waited_for_by_their_usual_one():
    ports = (*port("leaf-001", 5, STANDS, BUSY), *port("n1/hca0", 1, BUSY, BUSY))
    tables = {Gpu: rows(Gpu), FabricPort: rows(FabricPort, *ports)}
    context = Context(now=at(400), began=T0, topology=CABLE, intervals_seconds={"gpu": 1.0})
    detector = StuckCounter()
    found = detector.detect(tables, pl.DataFrame(schema=detector.keeps), context).findings
    assert said(found, "threshold") == [(240.0, 120.0)]


def test_a_port_that_sends_nothing_to_a_far_end_that_receives_nothing_is_idle():
    assert judge_ports(*port("leaf-001", 5, STANDS, BUSY), *port("n1/hca0", 1, BUSY, STANDS)).is_empty()


def test_a_megabyte_in_a_sample_is_needed():
    for received, found in ((1_500_000, 1), (900_000, 0)):
        far = port("n1/hca0", 1, BUSY, [received] * 12)
        assert judge_ports(*port("leaf-001", 5, STANDS, BUSY), *far).height == found


def test_the_far_end_of_another_cable_tells_nothing():
    assert judge_ports(*port("leaf-001", 6, STANDS, BUSY), *port("n1/hca0", 1, BUSY, BUSY)).is_empty()


def test_bytes_that_stand_while_packets_go_out_are_stuck():
    assert said(judge_ports(*port("leaf-009", 1, STANDS, BUSY, packets=1500)), "code") == [
        (240.0, "transmit_bytes_total")
    ]
    assert judge_ports(*port("leaf-009", 1, STANDS, BUSY, packets=900)).is_empty()


def test_corrections_that_stand_on_a_busy_link_with_many_raw_errors_are_stuck():
    # 1e-10 of 400 Gb/s over 30 s are 1,200 wrong bits; of 7e-11 there are 840
    corrected = [0, 30_000, 60_000, 90_000, *[90_000] * 8]
    assert said(judge_ports(*port("leaf-009", 1, BUSY, BUSY, corrected=corrected, rate=1e-10)), "code") == [
        (240.0, "fec_corrected_total")
    ]
    for quiet in ({"rate": 7e-11}, {"state": "down"}, {"sent": STANDS, "received": STANDS}):
        given_port = {"sent": BUSY, "received": BUSY, "corrected": corrected, **quiet}
        assert judge_ports(*port("leaf-009", 1, **given_port)).is_empty()


@settings(deadline=None, max_examples=8)
@given(cuts=cutting(300), stuck=st.sets(st.integers(0, 29).map(lambda k: 10 * k)), other=st.integers(60, 250))
def test_cuts_change_nothing(cuts, stuck, other):
    detector = StuckCounter(for_seconds=20.0, for_intervals=1.0)
    ports = (*port("leaf-001", 5, STANDS[:10], BUSY[:10]), *port("n1/hca0", 1, BUSY[:10], BUSY[:10]))
    tables = {
        Gpu: rows(Gpu, *gpu(stuck), *gpu(range(other, 300), slot=1)), FabricPort: rows(FabricPort, *ports),
    }  # fmt: skip
    assert_cuts_change_nothing(detector, tables, 300, cuts, CABLE)
