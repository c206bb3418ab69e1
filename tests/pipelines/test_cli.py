"""The command line as a person or a script meets it: exit codes, one clear line, JSON that programs can read."""

import json
import multiprocessing
import os
import shutil
import sys
import tempfile
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from pipelines.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT.parent / "shared" / "corpus"


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def _command(arguments: tuple[str, ...], folder: Path, environment: dict[str, str], out: Path, err: Path) -> None:
    """The command in this process, with its own files behind descriptors 1 and 2."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for path, descriptor, name in ((out, 1, "stdout"), (err, 2, "stderr")):
        with path.open("w") as file:
            os.dup2(file.fileno(), descriptor)
        setattr(sys, name, os.fdopen(descriptor, "w", closefd=False))
    sys.argv = ["hotspare", *arguments]
    main()


def hotspare(*arguments: str, folder: Path, code: int | None = 0) -> Done:
    """A process for each command, forked from one that has imported already: an interpreter of its own takes 3 s."""
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(["pipelines.cli.main"])
    with tempfile.TemporaryDirectory() as beside:
        out, err = Path(beside, "out"), Path(beside, "err")
        process = forks.Process(target=_command, args=(arguments, folder, dict(os.environ), out, err))
        process.start()
        process.join(240)
        assert process.exitcode is not None, f"{arguments} still runs after 240 s"
        done = Done(process.exitcode, out.read_text(), err.read_text())
    assert "Traceback" not in done.stderr, done.stderr
    if code is not None:
        assert done.returncode == code, done.stderr
    return done


def refusal(*arguments: str, folder: Path) -> str:
    """The one line on standard error of a command that ends with 2."""
    done = hotspare(*arguments, folder=folder, code=2)
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


def test_one_stopped_pump_is_one_incident_within_three_seconds(tmp_path: Path) -> None:
    replayed = json.loads(hotspare("replay", "pump_failure", "--json", folder=tmp_path, code=1).stdout)
    (incident,) = replayed["incidents"]
    assert incident["cause"] == "coolant_pump_failure"
    assert incident["severity"] == "page"
    onset = datetime.fromisoformat("2026-03-02T09:03:00Z")
    assert 0 <= (datetime.fromisoformat(incident["detected_at"]) - onset).total_seconds() <= 3
    assert {action["mode"] for action in incident["actions"]} == {"dry-run"}


def test_three_lost_power_domains_are_one_incident_with_384_gpus(tmp_path: Path) -> None:
    replayed = json.loads(hotspare("replay", "pdu_cascade", "--json", folder=tmp_path, code=1).stdout)
    (incident,) = replayed["incidents"]
    assert incident["cause"] == "power_domain_lost"
    assert incident["root"]["kind"] == "pdu"
    assert len(incident["root"]["ids"]) == 3
    assert len(set(incident["members"])) == len(incident["members"]) == 384
    assert set(replayed) >= {"incidents", "rows", "quarantined", "late", "stream_seconds", "elapsed_seconds"}


def test_a_recording_replays_like_the_scenario_it_came_from(tmp_path: Path) -> None:
    hotspare("simulate", "gpu_fallen_off_bus", "--to", "recorded", folder=tmp_path)
    kept = ("id", "cause", "root", "members", "starts_at", "detected_at", "ends_at", "evidence")
    one, two = (
        json.loads(hotspare("replay", source, "--json", folder=tmp_path, code=1).stdout)["incidents"]
        for source in ("gpu_fallen_off_bus", "recorded")
    )
    assert [{key: each[key] for key in kept} for each in one] == [{key: each[key] for key in kept} for each in two]
    scored = json.loads(hotspare("score", "recorded", "--json", folder=tmp_path).stdout)["recorded"]["total"]
    assert (scored["faults"], scored["detected"], scored["false_incidents"]) == (1, 1, 0)


def test_ingesting_the_same_recording_again_takes_nothing(tmp_path: Path) -> None:
    hotspare("simulate", "pump_failure", "--to", "recorded", folder=tmp_path)
    first = json.loads(hotspare("ingest", "--from", "recorded", "--json", folder=tmp_path).stdout)
    again = json.loads(hotspare("ingest", "--from", "recorded", "--json", folder=tmp_path).stdout)
    assert sum(first["rows"].values()) > 10_000
    assert sum(again["rows"].values()) == 0
    listed = json.loads(hotspare("incidents", "list", "--json", folder=tmp_path).stdout)["incidents"]
    assert [one["cause"] for one in listed] == ["coolant_pump_failure"]


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the stores of one pump failure."""
    folder = tmp_path_factory.mktemp("ingested")
    hotspare("ingest", "--from", "pump_failure", folder=folder)
    return folder


@pytest.fixture
def stores(ingested: Path, tmp_path: Path) -> Path:
    """The same for one test."""
    return Path(shutil.copytree(ingested, tmp_path / "stores"))


def test_a_person_acknowledges_notes_and_silences(stores: Path) -> None:
    (listed,) = json.loads(hotspare("incidents", "list", "--json", folder=stores).stdout)["incidents"]
    short = listed["id"][:8]
    hotspare("incidents", "ack", short, "--by", "ada", "-m", "on it", folder=stores)
    hotspare("incidents", "note", short, "pump 2 takes over", "--by", "ada", folder=stores)
    hotspare("incidents", "silence", "cause=coolant_pump_failure", "--by", "ada", folder=stores)
    shown = json.loads(hotspare("incidents", "show", short, "--json", folder=stores).stdout)
    assert shown["state"] == "acknowledged"
    assert [remark["text"] for remark in shown["remarks"]] == ["on it", "pump 2 takes over"]
    assert shown["actions"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("replay", "no_such_thing"), "no_such_thing: no such scenario, recording or file"),
        (("replay", "store:yesterday..today"), "'yesterday' is not a time"),
        (("replay", "healthy", "--speed", "fast"), "--speed fast"),
        (("ingest", "--from", "missing.log"), "missing.log"),
        (("schema", "gpus"), "no table 'gpus'"),
        (("incidents", "show", "inc-nothing"), "not an incident in this store"),
        (("incidents", "list", "--state", "burning"), "--state burning"),
        (("incidents", "silence", "cause"), "'cause' is not name=value"),
        (("topology", "path", "n00000/0", "n99999/0"), "n99999"),
        (("simulate", "healthy", "--to", "kafka", "--settings", "away.toml"), "127.0.0.1:9"),
        (("simulate", "healthy", "--to", "/proc/nowhere"), "/proc/nowhere"),
        (("replay", "store:0001-01-01T00:00:00+14:00..9999-12-31"), "0001-01-01"),
        (("replay", "healthy", "--seed", "-1"), "--seed"),
        (("ingest", "--from", "x" * 300), "x" * 100),
        (("incidents", "list", "--limit", "99999999999999999999"), "--limit"),
        (("nonsense",), "nonsense"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_wrong_use_is_one_line_and_exit_2(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    (tmp_path / "away.toml").write_text('[kafka]\nbootstrap_servers = "127.0.0.1:9"\ntimeout_seconds = 1\n')
    assert said in refusal(*arguments, folder=tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[kafka]\nbootstrap_server = 'x'\n", "did you mean 'bootstrap_servers'"),
        ("[detectors.'gpu.xidd']\nhold_seconds = 1\n", "no such detector; did you mean 'gpu.xid'"),
        ("[detectors.'gpu.xid']\nhold_second = 1\n", "did you mean 'hold_seconds'"),
        ("[detectors.'gpu.xid']\nhold_seconds = 'long'\n", "a number is wanted"),
        ("[store\n", "hotspare.toml"),
        ("[store]\nbusy_seconds = -1\n", "store.busy_seconds"),
    ],
)
def test_a_mistake_in_the_settings_is_named_with_what_was_meant(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "hotspare.toml").write_text(text)
    line = refusal("incidents", "list", folder=tmp_path)
    assert "hotspare.toml" in line
    assert said in line


@pytest.mark.parametrize(
    "content", [b"", b"\x00\x01\x02\xff" * 200, b"\xff\xfe{broken", b"just words\n" * 5, b'{"time": ' + b"[" * 20000],
    ids=["empty", "binary", "wrong encoding", "words", "nested"],
)  # fmt: skip
def test_a_file_that_is_no_telemetry_is_refused_by_name(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "strange.bin").write_bytes(content)
    assert "strange.bin" in refusal("ingest", "--from", "strange.bin", folder=tmp_path)


def test_a_file_over_the_limit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "hotspare.toml").write_text("[limits]\nfile_bytes_maximum = 100\n")
    (tmp_path / "kern.log").write_text("[1.0] NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.\n" * 9)
    assert "limits.file_bytes_maximum (100)" in refusal("ingest", "--from", "kern.log", folder=tmp_path)


def test_a_fatal_xid_in_a_kernel_log_is_an_incident(tmp_path: Path) -> None:
    (tmp_path / "n00007.log").write_text(
        "[Sun Mar  1 08:00:00 2026] NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, "
        "GPU has fallen off the bus.\n"
    )
    taken = json.loads(hotspare("ingest", "--from", "n00007.log", "--json", folder=tmp_path).stdout)
    assert taken["rows"]["gpu_event"] == 1
    assert [one["cause"] for one in taken["incidents"]] == ["gpu_fallen_off_bus"]


def test_tables_can_be_read_by_programs(tmp_path: Path) -> None:
    (power,) = json.loads(hotspare("schema", "power", "--json", folder=tmp_path).stdout).values()
    volts = next(column for column in power if column["column"] == "volts")
    assert (volts["unit"], volts["null"]) == ("volts", "yes")


def test_the_seed_topology_is_told_its_contradictions(tmp_path: Path) -> None:
    told = json.loads(hotspare("topology", "check", "seed", "--json", folder=tmp_path, code=1).stdout)["contradictions"]
    assert any("160 < 256" in one["arithmetic"] for one in told)
    assert json.loads(hotspare("topology", "check", "ndr-fat-tree", "--json", folder=tmp_path).stdout) == {
        "contradictions": []
    }


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not beside the project")
@pytest.mark.parametrize("name", ["demo_ab.sor", "sample1310_lowDR.sor"], ids=["version 1", "version 2"])
def test_traces_of_both_versions_are_judged(name: str, tmp_path: Path) -> None:
    expected = json.loads((CORPUS / "otdr" / "expected.json").read_text())[name]
    done = hotspare("cable", "accept", str(CORPUS / "otdr" / name), "--json", folder=tmp_path, code=None)
    (document,) = json.loads(done.stdout)["files"]
    assert len(document["events"]) == expected["events"]
    assert document["samples"] == expected["npts"]
    assert document["verdict"] in {"PASS", "FAIL", "UNRESOLVABLE"}


def test_a_broken_trace_beside_a_good_name_costs_only_itself(tmp_path: Path) -> None:
    (tmp_path / "cut.sor").write_bytes(b"Map\x00\xc8\x00\x40\x00")
    done = hotspare("cable", "accept", "cut.sor", folder=tmp_path, code=2)
    assert "cut.sor" in done.stdout


def test_a_window_of_the_store_is_judged_on_the_cluster_it_came_from(tmp_path: Path) -> None:
    taken = json.loads(hotspare("ingest", "--from", "pump_failure", "--json", folder=tmp_path).stdout)["incidents"]
    window = "store:2026-03-02T09:00:00Z..2026-03-02T10:00:00Z"  # longer than there is data, which is no silence
    again = json.loads(hotspare("replay", window, "--json", folder=tmp_path, code=1).stdout)["incidents"]
    kept = ("id", "cause", "root", "members", "detected_at")
    assert [{key: one[key] for key in kept} for one in again] == [{key: one[key] for key in kept} for one in taken]


def test_history_is_never_acted_upon_even_where_actions_are_enforced(tmp_path: Path) -> None:
    (tmp_path / "hotspare.toml").write_text('[recovery]\nmode = "enforce"\n')
    (tmp_path / "n00003.log").write_text(
        "[Sun Jan  5 08:00:00 2025] NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, "
        "GPU has fallen off the bus.\n"
    )
    taken = json.loads(hotspare("ingest", "--from", "n00003.log", "--json", folder=tmp_path).stdout)
    actions = [action for one in taken["incidents"] for action in one["actions"]]
    assert actions
    assert {action["mode"] for action in actions} == {"dry-run"}
    assert not (tmp_path / "var" / "actions.jsonl").exists()


def test_a_name_is_never_markup(stores: Path) -> None:
    (listed,) = json.loads(hotspare("incidents", "list", "--json", folder=stores).stdout)["incidents"]
    assert "[/red]" in hotspare("incidents", "ack", listed["id"], "--by", "[/red]", folder=stores).stdout
    assert "[/red]" in hotspare("breaker", "reset", "--reason", "x", "--by", "[/red]", folder=stores).stdout


def test_without_a_terminal_text_is_plain(tmp_path: Path) -> None:
    text = hotspare("replay", "pump_failure", folder=tmp_path, code=1).stdout
    assert not set(text) & set("│┃━─┏└")
    assert "coolant_pump_failure" in text


def test_an_incident_is_shown_with_what_was_seen_and_with_the_ids_of_its_actions_as_planned(stores: Path) -> None:
    (listed,) = json.loads(hotspare("incidents", "list", "--json", folder=stores).stdout)["incidents"]
    shown = hotspare("incidents", "show", listed["id"], folder=stores).stdout
    assert "flow_liters_per_minute" in shown
    assert "act-" in shown
    assert shown.index("raise_flow") < shown.index("cap_power") < shown.index("staged_shutdown")
