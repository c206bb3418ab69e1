import json

import pytest

from detectors.fabric.error_origin import ErrorOrigin
from schemas.fabric import FabricPort, Optic
from tests.detectors.fabric.fabric_timelines import A, B, judge_tables, lane, port, statements

HEALTHY, RISEN = 1e-9, 5e-7
FROM = 300


def ports(end=B, seconds=600, since=FROM):
    return [
        {**port(at, end, downed=0), "raw_bit_error_rate": RISEN if at >= since else HEALTHY}
        for at in range(0, seconds, 30)
    ]


def modules(end=B, seconds=600, *, receive=-2.0, celsius=50.0, volts=3.3, number=0):
    """A sample every 30 s, ten after the port's; from FROM on with these readings, before that as usual."""
    return [
        lane(
            at, end, receive if at >= FROM else -2.0, number=number,
            module_temperature_celsius=celsius if at >= FROM else 50.0, supply_volts=volts if at >= FROM else 3.3,
        )
        for at in range(10, seconds, 30)
    ]  # fmt: skip


def origin(optics):
    return judge_tables(ErrorOrigin(), {FabricPort: ports(), Optic: optics})


def test_errors_with_the_light_heat_and_volts_of_ever_are_the_serdes():
    findings = origin(modules())
    # Risen at 300, the module is heard at 310, the samples at 330 and 360 say so.
    assert statements(findings) == [(360, "c1", True)]
    assert findings.select("cause", "code", "severity").row(0) == ("link_degraded", "host_serdes", "ticket")
    seen = json.loads(findings["evidence"][0])
    assert seen["part"] == "spine-000:2"
    assert seen["raw_bit_error_rate"] / seen["normal_raw_bit_error_rate"] == pytest.approx(500)


@pytest.mark.parametrize(
    ("readings", "code"),
    [
        ({"celsius": 61.0}, "thermal"),
        ({"celsius": 70.5}, "thermal"),
        ({"volts": 3.1}, "supply"),
        ({"volts": 3.5}, "supply"),
    ],
)
def test_a_hot_module_and_a_wrong_supply_are_told_apart(readings, code):
    assert origin(modules(**readings))["code"].to_list() == [code]


def test_nine_kelvin_more_are_no_reason():
    assert origin(modules(celsius=59.0))["code"].to_list() == ["host_serdes"]


def test_errors_that_lost_light_explains_are_left_to_the_optics():
    assert origin(modules(receive=-5.0)).is_empty()


def test_one_dim_lane_of_many_explains_them_too():
    assert origin(modules(number=0) + modules(number=1, receive=-4.0)).is_empty()


def test_a_dark_lane_is_no_serdes():
    assert origin(modules(number=0) + modules(number=1, receive=None)).is_empty()


def test_a_module_that_says_nothing_accuses_nobody():
    assert origin([]).is_empty()


def test_the_module_is_asked_only_by_what_it_says_after_the_errors_rose():
    # Its last words are from before: the light may have gone with the errors.
    assert origin([row for row in modules() if row["time"] < ports()[10]["time"]]).is_empty()


def test_the_other_ends_module_is_not_asked():
    assert origin(modules() + modules(end=A, receive=-6.0))["code"].to_list() == ["host_serdes"]


def test_a_rise_by_less_than_two_decades_is_nothing():
    rows = ports()
    for row in rows[10:]:
        row["raw_bit_error_rate"] = 90 * HEALTHY
    assert judge_tables(ErrorOrigin(), {FabricPort: rows, Optic: modules()}).is_empty()
