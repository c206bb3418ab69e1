import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from schemas.admission import admit
from schemas.formats import redfish
from schemas.formats.decoded import NOT_SAID, Decoded, Surroundings, Unreadable
from schemas.tables import TABLE_BY_NAME

CORPUS = Path(__file__).parents[4] / "shared/corpus/coolant"
RECEIVED = datetime(2026, 8, 1, tzinfo=UTC)
SURROUNDINGS = Surroundings(node="bmc7", received_at=RECEIVED)
corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason="the shared corpus is not here")


def resource(kind: str, path: str, **properties: Any) -> dict[str, Any]:
    return {"@odata.type": f"#{kind}.v1_0_0.{kind}", "@odata.id": f"/redfish/v1/{path}", **properties}


def secondary(**properties: Any) -> dict[str, Any]:
    return resource("CoolantConnector", "ThermalEquipment/CDUs/cdu-07/SecondaryCoolantConnectors/1", **properties)


def decoded(*resources: Any) -> Decoded:
    return redfish.decode(json.dumps(resources[0] if len(resources) == 1 else resources).encode(), SURROUNDINGS)


def row(answer: Decoded, table: str) -> dict[str, Any]:
    admitted = admit(TABLE_BY_NAME[table], answer.tables[table])
    assert (admitted.rows.height, admitted.quarantined.height, admitted.ignored) == (1, 0, {})
    return admitted.rows.row(0, named=True)


def test_connectors_of_both_loops_and_the_reservoir_are_one_row_of_their_cdu() -> None:
    answer = decoded(
        resource(
            "CoolantConnector", "ThermalEquipment/CDUs/cdu-07/PrimaryCoolantConnectors/1",
            FlowLitersPerMinute={"Reading": 20.03}, SupplyTemperatureCelsius={"Reading": 13.5},
            ReturnTemperatureCelsius={"Reading": 31.2}, SupplyPressurekPa={"Reading": 803.1},
            ReturnPressurekPa={"Reading": 936.5},
        ),
        secondary(
            FlowLitersPerMinute={"Reading": 1003.5}, SupplyTemperatureCelsius={"Reading": 30.1},
            ReturnTemperatureCelsius={"Reading": 41.9}, SupplyPressurekPa={"Reading": 350.0},
            ReturnPressurekPa={"Reading": 110.0}, HeatRemovedkW={"Reading": 21.03},
        ),
        resource("Reservoir", "ThermalEquipment/CDUs/cdu-07/Reservoirs/1", FluidLevelPercent={"Reading": 64.8}),
    )  # fmt: skip
    found = row(answer, "coolant_loop")
    assert {name: value for name, value in found.items() if value is not None} == {
        "time": RECEIVED, "cdu": "bmc7/cdu-07",
        "facility_flow_liters_per_minute": 20.03, "facility_supply_celsius": 13.5,
        "facility_return_celsius": 31.2, "facility_supply_pressure_kpa": 803.1, "facility_return_pressure_kpa": 936.5,
        "flow_liters_per_minute": 1003.5, "supply_celsius": 30.1, "return_celsius": 41.9, "supply_pressure_kpa": 350.0,
        "return_pressure_kpa": 110.0, "heat_removed_kilowatts": 21.03, "level_percent": 64.8,
    }  # fmt: skip
    assert answer.rejects.is_empty()


@pytest.mark.parametrize(
    ("properties", "column", "value"),
    [
        ({"FlowGallonsPerMinute": {"Reading": 10}}, "flow_liters_per_minute", 37.85411784),
        (
            {"FlowLitersPerMinute": {"Reading": 10, "ReadingUnits": "[gal_us]/min"}},
            "flow_liters_per_minute",
            37.85411784,
        ),
        ({"SupplyPressurepsi": {"Reading": 30}}, "supply_pressure_kpa", 206.84271879504),
        ({"SupplyTemperatureFahrenheit": {"Reading": 77}}, "supply_celsius", 25.0),
        ({"SupplyTemperatureCelsius": {"Reading": 77, "ReadingUnits": "[degF]"}}, "supply_celsius", 25.0),
        ({"FlowLitersPerMinute": 12.5}, "flow_liters_per_minute", 12.5),
        ({"FlowLitersPerMinute": {"Reading": "12.5"}}, "flow_liters_per_minute", 12.5),
    ],
)
def test_units_are_converted_at_the_door(properties: dict[str, Any], column: str, value: float) -> None:
    assert row(decoded(secondary(**properties)), "coolant_loop")[column] == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("reading", "rule"),
    [({"Reading": "ERR!"}, "type"), ({"Reading": "N/A"}, "absent"), ({"Reading": 1.797e308}, "type"),
     ({"Reading": 500}, "range"), ({"Reading": 3, "ReadingUnits": "furlong"}, "unit"), ({"Reading": True}, "type")],
)  # fmt: skip
def test_what_is_no_reading_is_null_and_counted(reading: Any, rule: str) -> None:
    answer = decoded(secondary(SupplyTemperatureCelsius=reading, ReturnTemperatureCelsius={"Reading": 40}))
    assert answer.rejects["rule"].to_list() == [f"supply_celsius|{rule}"]
    assert row(answer, "coolant_loop")["supply_celsius"] is None


def test_a_null_reading_is_not_reported_and_no_fault() -> None:
    answer = decoded(secondary(SupplyTemperatureCelsius={"Reading": None}, FlowLitersPerMinute={"Reading": 5}))
    assert (row(answer, "coolant_loop")["supply_celsius"], answer.rejects.height) == (None, 0)


def test_the_time_is_the_newest_reading_time_with_its_offset() -> None:
    answer = decoded(
        secondary(
            FlowLitersPerMinute={"Reading": 5, "ReadingTime": "2026-07-31T10:00:00-05:00"},
            SupplyTemperatureCelsius={"Reading": 30, "ReadingTime": "2026-07-31T15:00:01Z"},
        )
    )
    assert row(answer, "coolant_loop")["time"] == datetime(2026, 7, 31, 15, 0, 1, tzinfo=UTC)


def test_pumps_give_share_and_revolutions() -> None:
    answer = decoded(
        resource("Pump", "ThermalEquipment/CDUs/1/Pumps/2", Id="2", PumpSpeedPercent={"Reading": 68, "SpeedRPM": 3290})
    )
    found = row(answer, "coolant_pump")
    assert (found["cdu"], found["pump"], found["speed_percent"], found["speed_rpm"]) == ("bmc7/1", "2", 68.0, 3290.0)


@pytest.mark.parametrize("state", ["Absent", "Disabled", "UnavailableOffline"])
def test_a_resource_that_is_not_there_says_nothing(state: str) -> None:
    answer = decoded(
        resource("Pump", "ThermalEquipment/CDUs/1/Pumps/2", Id="2", PumpSpeedPercent={"Reading": 0},
                 Status={"State": state, "Health": "OK"})
    )  # fmt: skip
    assert (answer.tables, answer.rejects["rule"].to_list()) == ({}, ["resource|left"])


@pytest.mark.parametrize(
    ("states", "worst"),
    [(["OK", "OK"], "ok"), (["OK", "Warning"], "warning"), (["Critical", "Warning"], "critical"),
     (["OK", "Unavailable"], "fault"), (["Unavailable", "Critical"], "critical"), (["Absent", "OK"], "ok")],
)  # fmt: skip
def test_the_worst_leak_detector_is_the_loops(states: list[str], worst: str) -> None:
    group = resource(
        "LeakDetection", "ThermalEquipment/CDUs/1/LeakDetection",
        LeakDetectorGroups=[{"Detectors": [{"DetectorState": state} for state in states]}],
    )  # fmt: skip
    single = [
        resource("LeakDetector", f"ThermalEquipment/CDUs/1/LeakDetection/LeakDetectors/{at}", DetectorState=state)
        for at, state in enumerate(states)
    ]
    assert row(decoded(group), "coolant_loop")["leak_state"] == worst
    assert row(decoded(*single), "coolant_loop")["leak_state"] == worst


def test_a_leak_detector_of_a_server_is_said_to_be_left() -> None:
    answer = decoded(
        resource("LeakDetector", "Chassis/1/ThermalSubsystem/LeakDetection/LeakDetectors/1", DetectorState="Critical")
    )
    assert (answer.tables, answer.rejects["rule"].to_list()) == ({}, ["resource|left"])


def test_the_mains_of_a_pdu_are_its_row_and_branches_are_not() -> None:
    answer = decoded(
        resource(
            "Circuit", "PowerEquipment/RackPDUs/pdu-003/Mains/AC1", CircuitType="Mains", BreakerState="Normal",
            PolyPhaseVoltage={"Line1ToLine2": {"Reading": 202.8}, "Line2ToLine3": {"Reading": 203.8},
                              "Line3ToLine1": {"Reading": 205.3}, "Line1ToNeutral": {"Reading": 117.8}},
            PolyPhaseCurrentAmps={"Line1": {"Reading": 8.02}, "Line2": {"Reading": 8.66}, "Neutral": {"Reading": 20}},
        ),
        resource("PowerDistributionMetrics", "PowerEquipment/RackPDUs/pdu-003/Metrics", PowerWatts={"Reading": 6438}),
        resource("Circuit", "PowerEquipment/RackPDUs/pdu-003/Branches/A", CircuitType="Branch", BreakerState="Tripped"),
    )  # fmt: skip
    found = row(answer, "power")
    assert found["volts"] == pytest.approx((202.8 + 203.8 + 205.3) / 3)
    assert (found["pdu"], found["amps"], found["watts"], found["breaker"]) == ("bmc7/pdu-003", 8.66, 6438.0, "closed")


def test_a_tripped_breaker_is_told() -> None:
    mains = resource("Circuit", "PowerEquipment/RackPDUs/1/Mains/AC1", BreakerState="Tripped", Voltage={"Reading": 0})
    found = row(decoded(mains), "power")
    assert (found["breaker"], found["volts"]) == ("tripped", 0.0)


def test_members_of_an_expanded_collection_are_read_and_oem_parts_are_not() -> None:
    collection = {
        "@odata.type": "#PumpCollection.PumpCollection",
        "Members": [
            resource("Pump", f"ThermalEquipment/CDUs/1/Pumps/{at}", Id=str(at), PumpSpeedPercent={"Reading": at},
                     Oem={"X": resource("Pump", "ThermalEquipment/CDUs/1/Pumps/9", Id="9")})
            for at in (1, 2)
        ],
    }  # fmt: skip
    assert decoded(collection).tables["coolant_pump"]["pump"].to_list() == ["1", "2"]


def test_ids_of_two_controllers_are_two_and_without_a_controller_the_id_is_all() -> None:
    pump = resource("Pump", "ThermalEquipment/CDUs/1/Pumps/2", Id="2", PumpSpeedPercent={"Reading": 5})
    read = (redfish.decode(json.dumps(pump).encode(), Surroundings(node=node)) for node in ("a", "b", NOT_SAID))
    assert [answer.tables["coolant_pump"]["cdu"].item() for answer in read] == ["a/1", "b/1", "1"]


def test_the_health_of_pumps_and_filters_is_a_row_of_their_cdu() -> None:
    critical = {"State": "Enabled", "Health": "Critical"}
    answer = decoded(
        resource("Pump", "ThermalEquipment/CDUs/1/Pumps/2", Id="2", Status=critical),
        resource("Filter", "ThermalEquipment/CDUs/1/Filters/A", Status={"State": "Enabled", "Health": "OK"}),
    )
    frame = answer.tables["hardware_sensor"].select("device", "sensor", "health")
    assert frame.rows() == [("bmc7/1", "pump 2", "critical"), ("bmc7/1", "filter A", "ok")]


def sensors(name: str) -> dict[str, dict[str, Any]]:
    answer = redfish.decode((CORPUS / name).read_bytes(), SURROUNDINGS)
    admitted = admit(TABLE_BY_NAME["hardware_sensor"], answer.tables["hardware_sensor"])
    assert (admitted.quarantined.height, answer.rejects.height) == (0, 0)
    return {row.pop("sensor"): row for row in admitted.rows.to_dicts()}


@corpus
def test_temperatures_and_fans_of_a_real_server() -> None:
    found = sensors("redfish_dell_thermal.json")
    assert len(found) == 17
    assert {row["device"] for row in found.values()} == {"bmc7"}
    assert (found["CPU1 Temp"]["temperature_celsius"], found["CPU1 Temp"]["health"]) == (40.0, "ok")
    assert found["System Board Fan1A"]["fan_rpm"] == 17760.0


@corpus
def test_a_fan_that_is_told_in_percent() -> None:
    found = sensors("redfish_hp_thermal.json")
    assert (found["Fan 1"]["fan_percent"], found["Fan 1"]["fan_rpm"]) == (23.0, None)
    assert found["01-Inlet Ambient"]["temperature_celsius"] == 19.0


@corpus
def test_supplies_of_one_name_are_told_apart_and_the_box_has_a_row() -> None:
    found = sensors("redfish_hp_power.json")
    watts = {name: row["watts"] for name, row in found.items()}
    assert watts == {"HpeServerPowerSupply 0": 0.0, "HpeServerPowerSupply 1": 90.0, "power 0": 221.0}


@corpus
def test_metrics_of_a_supply_are_one_row() -> None:
    (found,) = sensors("redfish_psu_metrics.json").values()
    names = ("temperature_celsius", "fan_rpm", "fan_percent", "watts", "input_watts", "volts", "amps", "health")
    assert [found[name] for name in names] == [43.9, 3290.0, 68.0, 937.4, 937.4, 230.2, 5.19, "warning"]


@corpus
def test_metrics_of_temperatures_are_a_row_each() -> None:
    found = {name: row["temperature_celsius"] for name, row in sensors("redfish_thermal_metrics.json").items()}
    assert found == {
        "Intake": 24.8, "Exhaust": 40.5, "Internal summary": 39.0, "Intake summary": 24.8, "Ambient summary": 22.5,
        "Exhaust summary": 40.5,
    }  # fmt: skip


@corpus
def test_a_profile_is_recognised_and_answered_in_one_line() -> None:
    data = (CORPUS / "ocp_cdu_profile.json").read_bytes()
    assert redfish.looks_like(data[:8192], "ocp_cdu_profile.json")
    answer = redfish.decode(data, SURROUNDINGS)
    assert (answer.tables, answer.rejects["rule"].to_list()) == ({}, ["file|configuration"])


def test_a_part_that_is_not_there_has_no_row_and_a_health_nobody_knows_is_counted() -> None:
    fans = [
        {"Name": "fan 1", "Reading": 9, "Status": {"State": "Absent"}},
        {"Name": "fan 2", "Reading": 9000, "ReadingUnits": "RPM", "Status": {"Health": "Splendid"}},
        {"Reading": 9000},
    ]
    answer = decoded(resource("Thermal", "Chassis/1/Thermal", Fans=fans))
    assert answer.tables["hardware_sensor"]["sensor"].to_list() == ["fan 2"]
    assert answer.rejects["rule"].to_list() == ["resource|name", "health|type"]


@corpus
def test_the_invalid_real_body_is_unreadable_with_its_place() -> None:
    with pytest.raises(Unreadable, match="line 20, column 15"):
        redfish.decode((CORPUS / "redfish_dell_thermalinvalid.json").read_bytes(), SURROUNDINGS)


@pytest.mark.parametrize("data", [b'junk{"@odata.type": "#Pump.v1_0_0.Pump"}', b"{}", b"[" * 50_000, b"[1]"])
def test_what_is_no_redfish_is_unreadable(data: bytes) -> None:
    with pytest.raises(Unreadable) as caught:
        redfish.decode(data, SURROUNDINGS)
    assert "\n" not in str(caught.value)
