"""The server under a soak: a process that is started, asked, killed and stopped."""

import math
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import msgspec

from replay.scenario import TopologyChoice
from tests.kafka.streaming import Place

START_SECONDS = 120.0


@dataclass
class Server:
    """behind_seconds, resident_megabytes: as of the last look; infinite and zero while it does not answer."""

    settings: Path
    behind_seconds: float = math.inf
    resident_megabytes: int = 0
    _child: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)
    _address: str = ""
    _lives: int = 0

    @classmethod
    @contextmanager
    def of(cls, there: Place, topology: TopologyChoice) -> Iterator["Server"]:
        settings = there.write_settings()
        parameters = ", ".join(f"{name} = {value}" for name, value in topology.parameters.items())
        choice = f'[topology]\npreset = "{topology.preset}"\nparameters = {{ {parameters} }}\n'
        settings.write_text(settings.read_text() + choice + '[recovery]\nmode = "enforce"\n')
        server = cls(settings)
        server.start()
        try:
            yield server
        finally:
            server.kill()

    @property
    def _log(self) -> Path:
        return self.settings.with_name(f"serve-{self._lives}.log")

    def start(self) -> None:
        self._lives += 1
        command = [sys.executable, "-m", "pipelines.cli", "serve", "--json", "--port", "0"]
        with self._log.open("wb") as log:
            self._child = subprocess.Popen(
                [*command, "--settings", str(self.settings)], stdout=subprocess.DEVNULL, stderr=log
            )
        deadline = time.monotonic() + START_SECONDS
        while not (found := [line["console"] for line in self._said() if line["event"] == "serving"]):
            if self._child.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"serve does not start:\n{self._log.read_text()[-2000:]}")
            time.sleep(0.1)
        self._address = found[0]

    def _said(self) -> list[Mapping[str, Any]]:
        lines = self._log.read_bytes().splitlines()
        return [msgspec.json.decode(line) for line in lines if line.startswith(b"{") and line.endswith(b"}")]

    def kill(self) -> None:
        """As a power cut would."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
        self._child, self.behind_seconds, self.resident_megabytes = None, math.inf, 0

    def stop(self) -> float:
        """As an init system would. Returns the seconds that it took."""
        assert self._child is not None
        began = time.monotonic()
        self._child.send_signal(signal.SIGTERM)
        if self._child.wait(60) != 0:
            raise RuntimeError(f"serve stopped with {self._child.returncode}:\n{self._log.read_text()[-2000:]}")
        return time.monotonic() - began

    def quantiles(self, name: str) -> dict[str, float]:
        """Of a summary in /metrics, over the last 2,000 of this life; empty while there is none."""
        text = httpx.get(f"{self._address}/metrics", timeout=10).text
        found = re.findall(rf'^hotspare_{name}\{{quantile="([0-9.]+)"\}} (\S+)$', text, re.MULTILINE)
        return {f"p{100 * float(quantile):g}": round(float(value), 3) for quantile, value in found}

    def is_even(self, until: datetime) -> bool:
        """Whether everything that was sent is judged and stored, as far as it knows: all older than `until`."""
        found = self.look()
        rows = (*found.get("lag_messages", {}).values(), found.get("waiting_rows"), found.get("unwritten_rows"))
        return (
            bool(found) and not any(rows) and found["now"] is not None and datetime.fromisoformat(found["now"]) >= until
        )

    def look(self) -> Mapping[str, Any]:
        """How it does, in its own words; empty while it does not answer."""
        try:
            answer = httpx.get(f"{self._address}/api/incidents", timeout=10)
            found: Mapping[str, Any] = msgspec.json.decode(answer.content)["serve"]
        except httpx.HTTPError:
            self.behind_seconds = math.inf
            return {}
        now = found["now"]
        self.behind_seconds = math.inf if now is None else time.time() - datetime.fromisoformat(now).timestamp()
        assert self._child is not None
        status = Path(f"/proc/{self._child.pid}/status").read_text()
        self.resident_megabytes = next(int(line.split()[1]) for line in status.splitlines() if "VmRSS" in line) // 1024
        return found
