import json

import pytest

from detectors.fabric.error_origin import ErrorOrigin
from schemas.fabric import FabricPort, Optic
from tests.detectors.fabric.fabric_timelines import A, B, judge_tables, lane, port, statements

HEALTHY, RISEN = 1e-9, 5e-7
FROM = 300


def ports(end=B, seconds=600, since=FROM, *, until=10**6, risen=RISEN, healthy=HEALTHY, trained=None, every=30):
    """trained: when the link came back from an outage."""
    return [
        {
            **port(at, end, downed=int(trained is not None and at >= trained)),
            "raw_bit_error_rate": risen if since <= at < until else healthy,
        }
        for at in range(0, seconds, every)
    ]


def modules(end=B, seconds=600, *, receive=-2.0, celsius=50.0, volts=3.3, number=0, usual_celsius=50.0):
    """A sample every 30 s, ten after the port's; from FROM on with these readings, before that as usual."""
    return [
        lane(
            at, end, receive if at >= FROM else -2.0, number=number,
            module_temperature_celsius=celsius if at >= FROM else usual_celsius,
            supply_volts=volts if at >= FROM else 3.3,
        )
        for at in range(10, seconds, 30)
    ]  # fmt: skip


def origin(optics, errors=None):
    return judge_tables(ErrorOrigin(), {FabricPort: errors or ports(), Optic: optics})


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
    assert origin(modules(), ports(healthy=1e-8, risen=9e-7)).is_empty()


def test_twice_two_decades_are_a_rise_and_five_hundred_times_almost_nothing_is_none():
    assert origin(modules(), ports(risen=2e-7))["code"].to_list() == ["host_serdes"]
    assert origin(modules(), ports(healthy=1e-10, risen=5e-8)).is_empty()


def test_two_thirds_of_a_decibel_explain_no_errors():
    assert origin(modules(receive=-2.6))["code"].to_list() == ["host_serdes"]


def test_a_module_that_is_always_warm_is_hot_at_seventy_degrees():
    assert origin(modules(celsius=70.5, usual_celsius=62.0))["code"].to_list() == ["thermal"]
    assert origin(modules(celsius=69.0, usual_celsius=62.0))["code"].to_list() == ["host_serdes"]


def test_it_ends_a_minute_after_the_errors_are_gone():
    findings = origin(modules(seconds=900), ports(seconds=900, until=600))
    assert statements(findings) == [(360, "c1", True), (660, "c1", False)]


def test_errors_of_a_link_that_has_just_retrained_are_asked_about_five_minutes_later():
    findings = origin(modules(seconds=900), ports(seconds=900, trained=FROM))
    assert statements(findings) == [(FROM + 330 + 60, "c1", True)]


def test_a_port_that_does_not_tell_its_rate_is_taken_for_one_of_400_gigabits():
    # 1e-7 of 1.2e13 bits are 1.2e6.
    def counted(errors):
        grown, total = [], 0
        for at in range(0, 600, 30):
            total += errors if at >= FROM else 100
            grown.append({**port(at, B, downed=0), "fec_corrected_total": total})
        return origin(modules(), grown)["code"].to_list()

    assert counted(600_000) == []
    assert counted(2_400_000) == ["host_serdes"]


def test_a_modules_words_count_for_five_of_its_intervals():
    # Modules speak once a minute. This one said its last 230 s before the second bad sample, that one 390 s before the
    # first.
    assert statements(origin(modules(seconds=371), ports(seconds=720, every=120))) == [(600, "c1", True)]
    assert origin(modules(seconds=1211), ports(seconds=2400, since=1200, every=400)).is_empty()


def test_after_two_samples_nothing_is_usual_yet():
    assert origin(modules(), ports(since=60)).is_empty()


@pytest.mark.parametrize("usual", [[1e-9] * 5 + [4e-9] * 5, [4e-9] + [1e-9] * 9])
def test_the_usual_rate_is_that_of_the_first_five_samples(usual):
    # 1e-9, or 1.6e-9 where the first was 4e-9: a hundred times either is less than 2e-7.
    rows = ports(risen=2e-7)
    for row, rate in zip(rows, usual, strict=False):
        row["raw_bit_error_rate"] = rate
    assert origin(modules(), rows)["code"].to_list() == ["host_serdes"]
