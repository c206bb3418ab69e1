"""Coverage-guided fuzzing of every decoder, from seeds: python -m tests.fuzz.run --seconds 60, or --runs 500

A decoder answers with rows that the door takes or refuses, or raises Unreadable in one line. Anything else is a crash:
its input is kept under --crashes, and the command ends with 1. --runs tries nearly the same each time, so that a change
is judged by what it changed; --seconds looks further. Needs atheris (tests/fuzz/requirements.lock), which is built for
Linux only.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["schemas.formats"]):
    from pipelines.topics import FORMATS, HEAD_BYTES, Format, recognise

from schemas.admission import admit
from schemas.formats.decoded import Surroundings, Unreadable
from schemas.tables import TABLE_BY_NAME
from tests.schemas.formats.test_fabric_damage import SAMPLES as FABRIC
from tests.schemas.formats.test_sentinels import SAMPLES as GPU
from tests.schemas.formats.test_sor import SAMPLE as SHOT
from tests.schemas.formats.test_streams_fuzzed import SAMPLES as STREAMS

CORPUS = Path(__file__).resolve().parents[3] / "shared/corpus"
SEED_BYTES_MAXIMUM = 16 * 1024
INPUT_BYTES_MAXIMUM = 32 * 1024
OWN = {
    "shot.sor": SHOT,
    "gpu.jsonl": b'{"time":1772366400000000,"node":"n1","gpu":[0,1],"temperature_celsius":[45.5,null]}\n',
    "annotations.json": b'[{"time":1507266395000,"timeEnd":0,"text":"x","tags":["deploy","pdu:p1"],"userName":"jo"}]',
    "dmesg.log": b"[ 12.5] NVRM: Xid (PCI:0000:9b:00): 79, pid=1, GPU has fallen off the bus.\n",
    "smi.txt": (
        b"==============NVSMI LOG==============\nGPU 00000000:9B:00.0\n    Temperature\n"
        b"        GPU Current Temp : 45 C\n"
    ),
    "smi.xml": (
        b"<nvidia_smi_log><gpu id='1'><temperature><gpu_temp>45 C</gpu_temp></temperature></gpu></nvidia_smi_log>"
    ),
}


def seeds() -> dict[str, list[bytes]]:
    """Samples by the format that they are recognised as; real ones too where the corpus is there, cut short."""
    texts = list(OWN.items())
    texts += [(name, data) for name, _, data in STREAMS]
    texts += [(name, text.encode()) for name, text in FABRIC.items()]
    texts += [(name, sample("45", '"45"').encode()) for name, sample in GPU.items()]
    texts += [
        (str(path), path.read_bytes()[:SEED_BYTES_MAXIMUM]) for path in sorted(CORPUS.rglob("*")) if path.is_file()
    ]
    found: dict[str, list[bytes]] = {form.name: [] for form in FORMATS}
    for name, data in texts:
        form = recognise(name, data[:HEAD_BYTES])
        if form is not None:
            found[form.name].append(data)
    return found


def fuzzed() -> list[Format]:
    """One of each decoder: the wire formats come once per table, and their tables share it."""
    per_table = {"wire JSON gpu", "wire JSON job_event", "Arrow IPC gpu"}
    return [form for form in FORMATS if form.name in per_table or form.name.rpartition(" ")[2] not in TABLE_BY_NAME]


def check(form: Format, data: bytes) -> None:
    """Raises what the decoder must not."""
    try:
        answer = form.decode(data, Surroundings(node="n1", bytes_maximum=INPUT_BYTES_MAXIMUM))
    except Unreadable as error:
        if "\n" in str(error):
            raise AssertionError(f"a reason of two lines: {error!r}") from error
        return
    for name, frame in answer.tables.items():
        admit(TABLE_BY_NAME[name], frame)


def fuzz(form: Format, limit: str, crashes: Path) -> None:
    """Fuzz one decoder in this process, which libFuzzer ends."""
    with tempfile.TemporaryDirectory() as folder:
        for number, data in enumerate(seeds()[form.name]):
            (Path(folder) / str(number)).write_bytes(data)
        options = [limit, f"-max_len={INPUT_BYTES_MAXIMUM}", f"-artifact_prefix={crashes}/",
                   "-timeout=20", "-rss_limit_mb=4096", "-seed=1", "-verbosity=0", "-print_final_stats=1"]  # fmt: skip
        atheris.Setup([sys.argv[0], folder, *options], lambda data: check(form, data))
        atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser()
    until = parser.add_mutually_exclusive_group(required=True)
    until.add_argument("--seconds", type=int, help="for each decoder")
    until.add_argument("--runs", type=int, help="for each decoder")
    parser.add_argument("--format", help="only this one, in this process")
    parser.add_argument("--crashes", type=Path, default=Path("var/fuzz"))
    given = parser.parse_args()
    given.crashes.mkdir(parents=True, exist_ok=True)
    if given.format:
        limit = f"-runs={given.runs}" if given.runs else f"-max_total_time={given.seconds}"
        fuzz(next(form for form in FORMATS if form.name == given.format), limit, given.crashes)
        return 0
    failed = []

    def run(form: Format) -> subprocess.CompletedProcess[str]:
        until = ["--runs", str(given.runs)] if given.runs else ["--seconds", str(given.seconds)]
        command = [sys.executable, "-m", "tests.fuzz.run", "--format", form.name, *until,
                   "--crashes", str(given.crashes)]  # fmt: skip
        as_before = {**os.environ, "PYTHONHASHSEED": "0"}
        return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, env=as_before)

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # most of it is the start of each process
        finished = list(zip(fuzzed(), pool.map(run, fuzzed()), strict=True))
    for form, done in finished:
        runs = next((line.split()[-1] for line in done.stderr.splitlines() if "number_of_executed_units" in line), "?")
        sys.stdout.write(f"{form.name}: {'good' if done.returncode == 0 else 'CRASH'}, {runs} inputs\n")
        if done.returncode:
            failed.append(form.name)
            sys.stdout.write(done.stderr[-3000:] + done.stdout[-1000:] + "\n")
    sys.stdout.write(f"{len(failed)} of {len(fuzzed())} decoders failed: {', '.join(failed) or 'none'}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
