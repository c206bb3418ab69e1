import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.telemetry.saturated import SaturatedCounters
from schemas.fabric import FabricPort
from schemas.gpu import Gpu
from tests.detectors.timelines import assert_cuts_change_nothing, cutting, rows, run, said


def ports(counter, values, *, width="classic", port=1):
    return [
        {"time": 30 * k, "device": "leaf-001", "port": port, "counter_width": width, counter: value}
        for k, value in enumerate(values)
    ]


def judge(*given_rows, ends=400):
    return run(SaturatedCounters(), {FabricPort: rows(FabricPort, *given_rows)}, ends)[0]


# Tops of PortCounters in the InfiniBand architecture, volume 1.
@pytest.mark.parametrize(
    ("counter", "top"),
    [
        ("local_link_integrity_error_total", 15), ("link_downed_total", 255), ("symbol_error_total", 65535),
        ("transmit_wait_total", 4294967295),
    ],
)  # fmt: skip
def test_a_classic_counter_stuck_at_its_top_is_said_with_the_second_sample(counter, top):
    found = judge(*ports(counter, [top - 1, top, top, top]))
    assert said(found, "cause", "kind", "entity", "code", "severity", "active") == [
        (60.0, "counter_saturated", "source", "fabric_port:leaf-001", counter, "ticket", True)
    ]


def test_one_sample_at_the_top_is_not_enough():
    assert judge(*ports("symbol_error_total", [7, 65535, 3, 5])).is_empty()


def test_the_same_number_of_a_wide_counter_is_a_count():
    assert judge(*ports("symbol_error_total", [65535, 65535, 65535], width="extended")).is_empty()
    assert judge(*ports("symbol_error_total", [65535, 65535, 65535], width=None)).is_empty()


def test_clearing_the_counter_ends_it():
    found = judge(*ports("symbol_error_total", [65535, 65535, 0, 4]))
    assert said(found, "active") == [(30.0, True), (60.0, False)]


def test_two_ports_of_a_device_are_one_statement_that_ends_with_the_last():
    one, two = [255, 255, 255, 0, 0], [255, 255, 255, 255, 0]
    found = judge(*ports("link_downed_total", one), *ports("link_downed_total", two, port=2))
    assert said(found, "active") == [(30.0, True), (120.0, False)]


def test_a_row_that_leaves_the_counter_out_says_nothing_of_it():
    found = judge(*ports("symbol_error_total", [65535, 65535, None, None, 65535]))
    assert said(found, "active") == [(30.0, True)]


def test_the_replay_counter_of_a_gpu_has_32_bits():
    stuck = [{"time": k, "node": "n1", "gpu": 3, "pcie_replay_total": 4294967295} for k in range(5)]
    found = run(SaturatedCounters(), {Gpu: rows(Gpu, *stuck)}, 10)[0]
    assert said(found, "entity", "active") == [(1.0, "gpu:n1", True)]


@settings(deadline=None, max_examples=25)
@given(cuts=cutting(300), values=st.lists(st.sampled_from([0, 65534, 65535, None]), min_size=4, max_size=9))
def test_cuts_change_nothing(cuts, values):
    two = [None, *values[1:], 65535]
    given_rows = (*ports("symbol_error_total", values), *ports("symbol_error_total", two, port=2))
    assert_cuts_change_nothing(SaturatedCounters(), {FabricPort: rows(FabricPort, *given_rows)}, 300, cuts)
