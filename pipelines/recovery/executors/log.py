"""The executor that only writes down what should be done: one JSON object a line, for a person or another program."""

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from io import FileIO
from pathlib import Path

import msgspec

from pipelines.recovery.executors.contract import ONLY_LOGGED, ActionOutcome
from schemas.action import ActionRequest


@dataclass(frozen=True)
class LogExecutor:
    """path: file that lines are added to. A line counts once its end is on the disk; half a line counts for nothing."""

    path: Path

    def apply(self, request: ActionRequest) -> ActionOutcome:
        line = msgspec.json.encode(asdict(request), order="sorted") + b"\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a+b", buffering=0) as file:
                file.write((b"" if self._ends_whole(file) else b"\n") + line)
                os.fsync(file.fileno())
        except OSError as error:
            return ActionOutcome(done=False, detail=f"{self.path}: {error.strerror}")
        setting = f'executors.by_kind.{request.kind} = "webhook"'
        who = f"no executor that acts is named for {request.kind}; e.g. {setting} in the settings names one"
        return ActionOutcome(done=True, detail=f"{ONLY_LOGGED}: {who}; written to {self.path}")

    def outcome_of(self, request_id: str) -> ActionOutcome | None:
        if request_id in self._written():
            return ActionOutcome(done=True, detail=f"{ONLY_LOGGED}: found in {self.path}")
        return None

    @staticmethod
    def _ends_whole(file: FileIO) -> bool:
        """Whether what was written before ends with a whole line, so that ours begins on its own."""
        if file.seek(0, os.SEEK_END) == 0:
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"

    def _written(self) -> Iterator[str]:
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            for line in file:
                try:
                    yield str(msgspec.json.decode(line)["id"])
                except (msgspec.DecodeError, KeyError, TypeError):
                    continue  # half a line of a process that was killed, or somebody else's
