"""A real slurmctld and slurmd of our own, one node, in a folder of the test run."""

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

NODE = "n00001"
PROGRAMS = ("munged", "slurmctld", "slurmd", "scontrol")
PATHS = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def do_without(reason: str) -> NoReturn:
    """CI sets HOTSPARE_REQUIRE_SLURM, so that a missing Slurm cannot pass for a green run there."""
    if os.environ.get("HOTSPARE_REQUIRE_SLURM") == "1":
        pytest.fail(f"HOTSPARE_REQUIRE_SLURM=1, but {reason}")
    pytest.skip(reason)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="session")
def scontrol(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Path of scontrol, with SLURM_CONF set to a cluster whose one node is idle."""
    found = {name: shutil.which(name, path=PATHS) for name in PROGRAMS}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        do_without(f"{missing[0]} is not installed (slurmctld, slurmd, slurm-client and munge)")
    folder = tmp_path_factory.mktemp("slurm")
    (folder / "slurm.conf").write_text(configuration(folder))
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o600)
    folder.chmod(0o755)
    names = {"key": "munge.key", "socket": "munge.socket", "pid": "munge.pid", "log": "munge.log", "seed": "munge.seed"}
    options = [f"--{name}{'' if name == 'socket' else '-file'}={folder / path}" for name, path in names.items()]
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    commands = (
        [found["munged"], "--force", "--foreground", *options],
        [found["slurmctld"], "-D"],
        [found["slurmd"], "-D", "-N", NODE],
    )
    started: list[subprocess.Popen[bytes]] = []
    logs = []
    try:
        for number, command in enumerate(commands):
            logs.append((folder / f"{number}.log").open("wb"))
            started.append(
                subprocess.Popen(
                    [str(part) for part in command], env=environment, stdout=logs[-1], stderr=subprocess.STDOUT
                )
            )
            time.sleep(0.5)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SLURM_CONF", environment["SLURM_CONF"])
            wait_for("IDLE ", str(found["scontrol"]), folder)
            yield str(found["scontrol"])
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(20)
        for log in logs:
            log.close()


def wait_for(state: str, scontrol: str, folder: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        shown = subprocess.run([scontrol, "--oneliner", "show", "node", NODE], capture_output=True, check=False)
        if f"State={state}".encode() in shown.stdout:
            return
        time.sleep(0.25)
    said = " | ".join((folder / f"{n}.log").read_text(errors="replace")[-300:] for n in range(3))
    do_without(f"the node of our Slurm is not {state.strip()} after a minute: {said}")


def configuration(folder: Path) -> str:
    host, user = socket.gethostname().partition(".")[0], getpass.getuser()
    return f"""ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={free_port()}
SlurmdPort={free_port()}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
NodeName={NODE} NodeHostname={host} NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
