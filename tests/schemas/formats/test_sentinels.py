"""Numbers that say "no reading" (field.md 5, formats.md traps 1 and 2) reach no table, whatever the format."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from pipelines.topics import FORMATS
from schemas.admission import admit
from schemas.formats.decoded import Decoded, Surroundings, Unreadable
from schemas.tables import TABLE_BY_NAME

SURROUNDINGS = Surroundings(node="n1", received_at=datetime(2026, 8, 1, tzinfo=UTC))
SENTINELS = (
    *range(2147483632, 2147483636), *range(9223372036854775792, 9223372036854775796), 4294967295,
    *(140737488355328.0 + step for step in range(4)), 9223372036854776000,
)  # fmt: skip
WORDS = ("N/A", "[N/A]", "[Not Supported]", "[Unknown Error]", "ERR!", "NaN", "inf", "")


def decode(name: str, data: str) -> Decoded:
    form = next(entry for entry in FORMATS if entry.name == name)
    return form.decode(data.encode(), SURROUNDINGS)


# A counter of errors has no upper bound that would catch a sentinel; a temperature has. VALUE stands for a bare number
# or a JSON string, as the format writes it.
LABELS = '"gpu":"0","Hostname":"n1"'
COUNTER, GAUGE = "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "DCGM_FI_DEV_GPU_TEMP"
SAMPLES: dict[str, Callable[[str, str], str]] = {
    "dcgm-exporter text": lambda value, _: (
        f'{COUNTER}{{gpu="0",Hostname="n1"}} {value}\n{GAUGE}{{gpu="0",Hostname="n1"}} {value}\n'
        f'DCGM_FI_DEV_FB_USED{{gpu="0",Hostname="n1"}} 5\n'
    ),
    "Prometheus JSON": lambda _, quoted: "\n".join(
        f'{{"timestamp":"2026-07-31T12:00:00Z","name":"{name}","value":{quoted},'
        f'"labels":{{"__name__":"{name}",{LABELS}}}}}'
        for name in (COUNTER, GAUGE)
    ),
    "Telegraf JSON": lambda _, quoted: (
        f'{{"name":"prometheus","timestamp":1785499200,"tags":{{{LABELS}}},'
        f'"fields":{{"{COUNTER}":{quoted},"{GAUGE}":{quoted}}}}}'
    ),
    "OTLP JSON": lambda _, quoted: (
        '{"resourceMetrics":[{"scopeMetrics":[{"metrics":['
        + ",".join(
            f'{{"name":"{name}","gauge":{{"dataPoints":[{{"timeUnixNano":"1785499200000000000","asDouble":{quoted},'
            f'"attributes":[{{"key":"gpu","value":{{"stringValue":"0"}}}}]}}]}}}}'
            for name in (COUNTER, GAUGE)
        )
        + "]}]}]}"
    ),
    "nvidia-smi CSV": lambda value, _: (
        "index, ecc.errors.corrected.volatile.total, temperature.gpu, memory.used [MiB]\n"
        f"0, {value}, {value}, 5 MiB\n"
    ),
    "SuperBench monitor": lambda _, quoted: (
        f'{{"time": "2021-12-06 04:19:35", "gpu_usage:0": 5, "gpu_temperature:0": {quoted}, '
        f'"gpu_corrected_ecc:0": {quoted}}}\n'
    ),
    "amd-smi JSON": lambda _, quoted: (
        f'[{{"gpu": 0, "temperature": {{"hotspot": {quoted}}}, "ecc": {{"total_correctable_count": {quoted}}}, '
        '"usage": {"gfx_activity": {"value": 42, "unit": "%"}}}]'
    ),
    "rocm-smi JSON": lambda _, quoted: (
        f'{{"card0": {{"Temperature (Sensor edge) (C)": {quoted}, "GPU use (%)": "3"}}}}'
    ),
}  # fmt: skip


def values(name: str, text: str) -> tuple[list[object], int]:
    """What stands in the two columns, and how many rejects there are."""
    try:
        answer = decode(name, text)
    except Unreadable:
        return [], 1
    found: list[object] = []
    refused = answer.rejects.height
    for table, frame in answer.tables.items():
        admitted = admit(TABLE_BY_NAME[table], frame)
        refused += admitted.quarantined.height
        found += [*admitted.rows["ecc_correctable_total"], *admitted.rows["temperature_celsius"]]
    return [value for value in found if value is not None], refused


@pytest.mark.parametrize("name", SAMPLES)
def test_the_sample_gives_readings_when_they_are_some(name: str) -> None:
    assert 45 in values(name, SAMPLES[name]("45", '"45"'))[0]


@pytest.mark.parametrize("sentinel", [*SENTINELS, *WORDS], ids=str)
@pytest.mark.parametrize("name", SAMPLES)
def test_no_sentinel_survives_and_each_is_counted(name: str, sentinel: object) -> None:
    found, refused = values(name, SAMPLES[name](str(sentinel), f'"{sentinel}"'))
    assert found == []
    # A healthy row of nvidia-smi says N/A in 51 to 135 of its cells: what a GPU has not got is no fault.
    assert refused > 0 or (name == "nvidia-smi CSV" and sentinel in {"N/A", "[N/A]", "[Not Supported]", ""})


@pytest.mark.parametrize("sentinel", SENTINELS, ids=str)
@pytest.mark.parametrize("name", [name for name, sample in SAMPLES.items() if sample("1", '"1"') != sample("1", "1")])
def test_no_sentinel_survives_as_a_bare_json_number_either(name: str, sentinel: object) -> None:
    found, refused = values(name, SAMPLES[name](str(sentinel), str(sentinel)))
    assert found == []
    assert refused > 0
