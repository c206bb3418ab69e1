"""What an SRE types about recovery: holds, cancel, spares, checkpoints, failures, phases, pages, the closed loop."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pipelines.cli.main import app
from pipelines.cli.output import Refused
from pipelines.operations_records import NotFound
from pipelines.operations_store import OperationsStore
from pipelines.recovery.ledger import Ledger
from pipelines.settings import load_settings
from schemas.action import ActionRecord, ActionRequest

RUNNER = CliRunner()
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CLUSTER = (
    "parameters = { pods = 1, superblocks_per_pod = 1, nodes_per_superblock = 8, nodes_per_leaf = 8, spare_nodes = 1 }"
)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Settings with stores that have taken in five minutes of a small cluster in which a GPU falls off the bus."""
    folder = tmp_path_factory.mktemp("recovery")
    scenario = folder / "small.toml"
    scenario.write_text(
        'name = "small"\nduration_seconds = 240\n[topology]\n'
        f"{CLUSTER}\n"
        '[[fault]]\nfault = "gpu_fallen_off_bus"\nat_seconds = 60\nentity = "n00001/3"\n'
    )
    file = folder / "hotspare.toml"
    file.write_text(
        f'[store]\ntelemetry = "{folder}/t.duckdb"\noperations = "{folder}/o.sqlite"\nactions = "{folder}/a.jsonl"\n'
        f"[topology]\n{CLUSTER}\n[capacity]\nfailures_per_gpu_day = 0.02\n"
    )
    for arguments in (["simulate", str(scenario), "--to", f"{folder}/rec"], ["ingest", "--from", f"{folder}/rec"]):
        ended = RUNNER.invoke(app, [*arguments, "--settings", str(file)], standalone_mode=False)
        assert ended.exception is None, ended.exception
    return str(file)


def run(settings: str, *arguments: str) -> tuple[int, Any]:
    ended = RUNNER.invoke(app, [*arguments, "--settings", settings, "--json"], standalone_mode=False)
    if ended.exception is not None:
        raise ended.exception
    return ended.return_value, json.loads(ended.stdout)


def incident(settings: str) -> str:
    found = run(settings, "incidents", "list")[1]["incidents"]
    return str(next(one["id"] for one in found if one["cause"] == "gpu_fallen_off_bus"))


def test_an_incident_shows_its_phases_with_their_timers(settings: str) -> None:
    _, shown = run(settings, "incidents", "show", incident(settings))
    kinds = [phase["kind"] for phase in shown["phases"]]
    assert kinds[:5] == ["drain_node", "pause_stage", "allocate_spare", "restore_shard", "resume"]
    assert all(phase["deadline_at"] and phase["outcome"] == "dry-run" for phase in shown["phases"][:5])


def test_spares_say_how_many_are_needed_and_exit_one_when_they_are_too_few(settings: str) -> None:
    code, told = run(settings, "spares")
    # 64 GPUs x 0.02 a day x 1 day of repair: P(N <= 4 | 1.28) = 0.98996, P(N <= 5) = 0.9979
    assert (told["needed"], told["pool"]) == (5, {"available": 1})
    assert (code, told["is_short"]) == (1, True)
    assert told["capacity"]["gpus_out"] == 1


def test_checkpoints_show_the_registry_and_the_best_interval(settings: str) -> None:
    _, told = run(settings, "checkpoints")
    (job,) = told["jobs"]
    assert job["shards"] == 7 * 8
    assert job["advice"]["interval_seconds"] == 300
    assert job["advice"]["between_failures_seconds"] == pytest.approx(86400 / 1.28)


def test_failures_map_what_is_out(settings: str) -> None:
    _, told = run(settings, "failures")
    assert ("gpu", "n00001/3", "failed") in {(one["kind"], one["entity"], one["state"]) for one in told["entities"]}


def test_a_hold_is_set_listed_shown_on_the_map_and_released(settings: str) -> None:
    run(settings, "holds", "set", "n00002", "--by", "ann", "-m", "hands inside")
    assert [one["target"] for one in run(settings, "holds", "list")[1]["holds"]] == ["n00002"]
    assert "held" in {one["state"] for one in run(settings, "failures")[1]["entities"]}
    assert run(settings, "holds", "release", "n00002")[1]["released"] == 1
    with pytest.raises(NotFound, match="nobody holds 'n00002'"):
        run(settings, "holds", "release", "n00002")


@pytest.mark.parametrize("name", ["n0002", "n00002/8", "leaf-99:1", "pod-7"])
def test_a_hold_on_what_is_not_there_is_refused_as_it_would_hold_nothing_off(settings: str, name: str) -> None:
    with pytest.raises(Refused, match="nothing was held"):
        run(settings, "holds", "set", name)


def test_who_approves_is_told_whether_another_person_is_needed(settings: str) -> None:
    request = ActionRequest(
        id="act-1", incident="inc-1", kind="staged_shutdown", target="cdu-00", parameters={}, requested_at=NOON,
        reason="last resort",
    )  # fmt: skip
    waiting = ActionRecord(request=request, mode="enforce", outcome="waiting_approval", why="", at=NOON)
    store = OperationsStore.open(load_settings(Path(settings)).store.operations)
    Ledger(store).enter(waiting, None)
    store.close()
    approve = ["actions", "approve", "act-1", "--settings", settings, "--by"]
    said = [RUNNER.invoke(app, [*approve, by], standalone_mode=False).stdout for by in ("ann", "Ann", "bob")]
    assert [line.partition(": ")[2].partition(";")[0] for line in said] == ["1 of 2 people"] * 2 + ["2 of 2 people"]


def test_an_action_is_cancelled_once(settings: str) -> None:
    actions = run(settings, "incidents", "show", incident(settings))[1]["actions"]
    reboot = next(one["id"] for one in actions if one["kind"] == "reboot_node")
    assert run(settings, "actions", "cancel", reboot, "--by", "ann")[1]["outcome"] == "cancelled"
    with pytest.raises(Refused, match="cannot be cancelled: it is cancelled"):
        run(settings, "actions", "cancel", reboot)


def test_history_is_told_to_nobody(settings: str) -> None:
    assert run(settings, "notify")[1] == {"receivers": [], "told": 0, "troubles": []}


def test_simulate_says_what_it_needs(settings: str) -> None:
    with pytest.raises(Refused, match="give a scenario"):
        run(settings, "simulate")
    with pytest.raises(Refused, match="known are llama3, seed"):
        run(settings, "simulate", "--closed-loop", "llama4")
