"""Prometheus JSON, Telegraf JSON and OTLP: one sample a row, in three envelopes."""

import json
import struct
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest

from schemas.admission import admit
from schemas.formats import otlp_json, otlp_protobuf, prometheus_json, telegraf_json
from schemas.formats.decoded import Decoded, Surroundings, Unreadable
from schemas.tables import TABLE_BY_NAME

RECEIVED = datetime(2026, 8, 1, tzinfo=UTC)
SURROUNDINGS = Surroundings(node="n00012", received_at=RECEIVED)
NOON = datetime(2026, 7, 31, 12, tzinfo=UTC)
NOON_SECONDS = 1_785_499_200  # date -u -d 2026-07-31T12:00:00Z +%s


def gpu(answer: Decoded) -> pl.DataFrame:
    admitted = admit(TABLE_BY_NAME["gpu"], answer.tables["gpu"])
    assert (admitted.quarantined.height, admitted.ignored) == (0, {})
    return admitted.rows


def prometheus(field: str, value: Any, stamp: Any = "2026-07-31T12:00:00Z", **labels: str) -> dict[str, Any]:
    name = f"DCGM_FI_DEV_{field}"
    told = {"__name__": name, "gpu": "3", "UUID": "GPU-a", "Hostname": "n7"} | labels
    return {"timestamp": stamp, "value": value, "name": name, "labels": told}


def from_prometheus(*samples: Any) -> Decoded:
    return prometheus_json.decode(json.dumps(list(samples)).encode(), SURROUNDINGS)


def test_remote_write_samples_of_one_scrape_become_one_row_in_the_tables_units() -> None:
    frame = gpu(
        from_prometheus(
            prometheus("GPU_TEMP", "45"),
            prometheus("TOTAL_ENERGY_CONSUMPTION", "123456789"),
            prometheus("FB_USED", "2"),
        )
    )
    assert frame.select(
        "time", "node", "gpu", "uuid", "temperature_celsius", "energy_joules_total", "memory_used_bytes"
    ).rows() == [(NOON, "n7", 3, "GPU-a", 45.0, 123456.789, 2 * 1024 * 1024)]


@pytest.mark.parametrize(
    "data",
    [
        json.dumps(prometheus("GPU_TEMP", "45")),
        json.dumps([prometheus("GPU_TEMP", "45")], indent=1),
        json.dumps(prometheus("GPU_TEMP", "45")) + "\n" + json.dumps(prometheus("GPU_UTIL", "9")),
    ],
    ids=["one object", "a list", "lines"],
)
def test_remote_write_comes_as_an_object_a_list_or_lines(data: str) -> None:
    assert gpu(prometheus_json.decode(data.encode(), SURROUNDINGS))["temperature_celsius"].to_list() == [45.0]


@pytest.mark.parametrize(
    "stamp",
    ["2026-07-31T12:00:00Z", "2026-07-31T14:00:00+02:00", NOON_SECONDS, NOON_SECONDS * 1000, NOON_SECONDS * 10**6,
     str(NOON_SECONDS * 10**9), float(NOON_SECONDS)],
)  # fmt: skip
def test_times_are_read_in_every_spelling(stamp: object) -> None:
    assert gpu(from_prometheus(prometheus("GPU_TEMP", "45", stamp)))["time"].to_list() == [NOON]


def test_a_time_that_is_none_costs_its_sample() -> None:
    answer = from_prometheus(prometheus("GPU_TEMP", "45", "yesterday"), prometheus("GPU_UTIL", "9"))
    assert answer.rejects.select("rule", "offset").rows() == [("time|type", 1)]
    assert gpu(answer)["utilization_percent"].to_list() == [9.0]


@pytest.mark.parametrize(
    ("value", "rule"),
    [("NaN", "absent"), ("N/A", "absent"), ("ERR!", "type"), ("[Unknown Error]", "type"), ("+Inf", "type"),
     ("9223372036854775794", "blank"), ("2147483632", "blank"), ("151", "range"), ("-41", "range"), (True, "type")],
)  # fmt: skip
def test_what_is_no_reading_is_null_and_counted(value: object, rule: str) -> None:
    answer = from_prometheus(prometheus("GPU_TEMP", value))
    assert answer.rejects["rule"].to_list() == [f"temperature_celsius|{rule}"]
    assert gpu(answer)["temperature_celsius"].to_list() == [None]


def test_mig_samples_are_refused_and_single_links_passed_over() -> None:
    answer = from_prometheus(
        prometheus("GPU_TEMP", "45"), prometheus("FB_USED", "6", GPU_I_ID="13"), prometheus("FB_USED", "7", nvlink="3")
    )
    assert answer.rejects["rule"].to_list() == ["gpu|mig"]
    assert gpu(answer)["memory_used_bytes"].to_list() == [None]


def test_other_series_of_the_stream_are_passed_over() -> None:
    other = {"timestamp": "2026-07-31T12:00:00Z", "value": "1", "name": "up", "labels": {"__name__": "up"}}
    answer = from_prometheus(other)
    assert (answer.tables, answer.rejects.height) == ({}, 0)


def test_without_a_host_label_the_scraped_address_names_the_node() -> None:
    sample = prometheus("GPU_TEMP", "45", instance="n9:9400") | {}
    del sample["labels"]["Hostname"]
    assert gpu(from_prometheus(sample))["node"].to_list() == ["n9"]


def test_infiniband_series_become_ports() -> None:
    labels = {"guid": "0x7cfe9003009ce5b0", "port": "1", "switch": 'leaf "1"'}
    sample = {
        "timestamp": "2026-07-31T12:00:00Z", "value": "12", "labels": labels,
        "name": "infiniband_switch_port_symbol_error_total",
    }  # fmt: skip
    frame = from_prometheus(sample, prometheus("GPU_TEMP", "45")).tables["fabric_port"]
    assert frame.select("time", "port", "symbol_error_total").rows() == [(NOON, 1, 12)]


def test_a_bad_line_costs_only_itself() -> None:
    good = json.dumps(prometheus("GPU_TEMP", "45")).encode()
    answer = prometheus_json.decode(b'{"value": \n' + good + b"\n", SURROUNDINGS)
    assert answer.rejects.select("rule", "offset").rows() == [("line|json", 1)]
    assert gpu(answer).height == 1


@pytest.mark.parametrize("data", [b"[1, 2]", b"nonsense", b"{}", b"[" * 100_000, b'{"a":' * 100_000])
@pytest.mark.parametrize("form", [prometheus_json, telegraf_json, otlp_json])
def test_what_is_none_of_these_is_unreadable_in_one_line(form: Any, data: bytes) -> None:
    with pytest.raises(Unreadable) as caught:
        form.decode(data, SURROUNDINGS)
    assert "\n" not in str(caught.value)


SMI = {
    "name": "nvidia_smi", "timestamp": NOON_SECONDS,
    "tags": {"host": "8218cf", "index": "1", "name": "GeForce GTX 1080", "uuid": "GPU-f9"},
    "fields": {"temperature_gpu": 50, "memory_used": 557, "utilization_gpu": 100, "power_draw": 61.5,
               "pcie_link_gen_current": 3, "remapped_rows_pending": "Yes", "pstate": "P2"},
}  # fmt: skip


@pytest.mark.parametrize("envelope", [SMI, {"metrics": [SMI]}], ids=["single", "batch"])
def test_telegraf_nvidia_smi(envelope: dict[str, Any]) -> None:
    frame = gpu(telegraf_json.decode(json.dumps(envelope).encode(), SURROUNDINGS))
    assert frame.select(
        "time", "node", "gpu", "uuid", "temperature_celsius", "memory_used_bytes", "utilization_percent", "power_watts",
        "pcie_generation", "row_remap_pending",
    ).rows() == [(NOON, "8218cf", 1, "GPU-f9", 50.0, 557 * 1024 * 1024, 100.0, 61.5, 3, True)]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "fields"),
    [("DCGM_FI_DEV_GPU_TEMP", {"gauge": 45.0}), ("prometheus", {"DCGM_FI_DEV_GPU_TEMP": 45.0})],
    ids=["metric_version 1", "metric_version 2"],
)
def test_telegraf_prometheus_in_both_layouts(name: str, fields: dict[str, float]) -> None:
    metric = {"name": name, "fields": fields, "tags": {"gpu": "0", "Hostname": "n1"}, "timestamp": NOON_SECONDS}
    assert gpu(telegraf_json.decode(json.dumps(metric).encode(), SURROUNDINGS))["temperature_celsius"].to_list() == [45]


def test_telegraf_redfish_gives_sensors_of_its_source() -> None:
    tags = {"source": "web483", "address": "10.0.0.7", "member_id": "0", "health": "OK", "state": "Enabled"}
    metrics = [
        {"name": name, "fields": fields, "tags": {**tags, "name": sensor}, "timestamp": NOON_SECONDS}
        for name, sensor, fields in (
            ("redfish_thermal_fans", "Fan 1", {"reading_percent": 23}),
            ("redfish_thermal_temperatures", "01-Inlet", {"reading_celsius": 19, "upper_threshold_critical": 42}),
            ("redfish_power_powersupplies", "PSU", {"last_power_output_watts": 90, "line_input_voltage": 205}),
        )
    ]
    frame = telegraf_json.decode(json.dumps({"metrics": metrics}).encode(), SURROUNDINGS).tables["hardware_sensor"]
    columns = ("device", "sensor", "temperature_celsius", "fan_percent", "watts", "volts", "health")
    assert frame.select(columns).rows() == [
        ("web483", "Fan 1", None, 23.0, None, None, "ok"),
        ("web483", "01-Inlet", 19.0, None, None, None, "ok"),
        ("web483", "PSU", None, None, 90.0, 205.0, "ok"),
    ]


def attribute(key: str, text: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": text}}


def otlp(*metrics: dict[str, Any]) -> dict[str, Any]:
    return {
        "resourceMetrics": [
            {"resource": {"attributes": [attribute("host.name", "n5")]}, "scopeMetrics": [{"metrics": list(metrics)}]}
        ]
    }


def point(**value: Any) -> dict[str, Any]:
    return {"timeUnixNano": str(NOON_SECONDS * 10**9), "attributes": [attribute("gpu", "2")]} | value


def metric(name: str, *points: dict[str, Any], kind: str = "gauge") -> dict[str, Any]:
    return {"name": name, kind: {"dataPoints": list(points)}}


def from_otlp(*metrics: dict[str, Any]) -> Decoded:
    return otlp_json.decode(json.dumps(otlp(*metrics)).encode(), SURROUNDINGS)


def test_otlp_gauges_and_sums_in_doubles_and_whole_numbers() -> None:
    frame = gpu(
        from_otlp(
            metric("DCGM_FI_DEV_GPU_TEMP", point(asInt="45")),
            metric("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", point(asDouble=2500.0), kind="sum"),
        )
    )
    assert frame.select("time", "node", "gpu", "temperature_celsius", "energy_joules_total").rows() == [
        (NOON, "n5", 2, 45.0, 2.5)
    ]


def test_otlp_hardware_conventions_are_in_si_units() -> None:
    of_gpu = [attribute("hw.type", "gpu"), attribute("hw.id", "gpu-2")]
    frame = gpu(
        from_otlp(
            metric("hw.gpu.utilization", point(asDouble=0.25, attributes=of_gpu)),
            metric("hw.gpu.memory.usage", point(asInt="1073741824", attributes=of_gpu), kind="sum"),
            metric("hw.power", point(asDouble=650.5, attributes=of_gpu)),
            metric("hw.energy", point(asDouble=7.0, attributes=of_gpu), kind="sum"),
            metric(
                "hw.errors", point(asInt="4", attributes=[*of_gpu, attribute("error.type", "corrected")]), kind="sum"
            ),
            metric("hw.power", point(asDouble=99.0, attributes=[attribute("hw.type", "cpu"), attribute("hw.id", "2")])),
        )
    )
    assert frame.select(
        "gpu", "utilization_percent", "memory_used_bytes", "power_watts", "energy_joules_total", "ecc_correctable_total"
    ).rows() == [(2, 25.0, 2**30, 650.5, 7.0, 4)]


def test_otlp_series_that_ended_and_histograms_make_no_rows() -> None:
    answer = from_otlp(
        metric("DCGM_FI_DEV_GPU_TEMP", point(flags=1)),
        {"name": "hw.power", "histogram": {"dataPoints": [{"count": "1"}]}},
    )
    assert (answer.tables, answer.rejects["rule"].to_list()) == ({}, ["metric|left"])


def test_otlp_point_without_a_time_costs_itself() -> None:
    answer = from_otlp(metric("DCGM_FI_DEV_GPU_TEMP", point(asInt="45", timeUnixNano="0"), point(asInt="46")))
    assert answer.rejects["rule"].to_list() == ["time|type"]
    assert gpu(answer)["temperature_celsius"].to_list() == [46.0]


# The wire by https://protobuf.dev/programming-guides/encoding: a tag is field * 8 + wire type.
def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out, number = out + bytes([number & 0x7F | 0x80]), number >> 7
    return out + bytes([number])


def field(number: int, content: bytes) -> bytes:
    return varint(number * 8 + 2) + varint(len(content)) + content


def string_attribute(key: str, text: str) -> bytes:
    return field(1, key.encode()) + field(2, field(1, text.encode()))


def request(temperature: bytes) -> bytes:
    """One export request of one gauge; `temperature` is its value field."""
    data_point = (
        field(7, string_attribute("gpu", "2")) + varint(3 * 8 + 1) + struct.pack("<Q", NOON_SECONDS * 10**9)
        + temperature + varint(99 * 8) + varint(300)
    )  # fmt: skip
    gauge = field(1, b"DCGM_FI_DEV_GPU_TEMP") + field(3, b"C") + field(5, field(1, data_point))
    resource = field(1, field(1, string_attribute("host.name", "n5")))
    return field(1, resource + field(2, field(1, field(1, b"scope")) + field(2, gauge)))


@pytest.mark.parametrize(
    ("value", "celsius"),
    [(varint(4 * 8 + 1) + struct.pack("<d", 45.5), 45.5), (varint(6 * 8 + 1) + struct.pack("<q", -4), -4.0)],
    ids=["as_double", "as_int"],
)
def test_otlp_protobuf_tells_what_json_tells(value: bytes, celsius: float) -> None:
    frame = gpu(otlp_protobuf.decode(request(value), SURROUNDINGS))
    assert frame.select("time", "node", "gpu", "temperature_celsius").rows() == [(NOON, "n5", 2, celsius)]


def test_otlp_protobuf_is_unreadable_wherever_it_is_cut() -> None:
    whole = request(varint(4 * 8 + 1) + struct.pack("<d", 45.5))
    for end in range(2, len(whole)):
        with pytest.raises(Unreadable, match=r"byte \d+"):
            otlp_protobuf.decode(whole[:end], SURROUNDINGS)


def test_otlp_protobuf_is_recognised_by_its_name_and_first_bytes() -> None:
    whole = request(b"")
    assert otlp_protobuf.looks_like(whole, "metrics.otlp")
    assert not otlp_protobuf.looks_like(whole, "metrics.bin")
    assert not otlp_protobuf.looks_like(b"\x0a\x80", "metrics.pb")
