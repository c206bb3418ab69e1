"""What tests of the telemetry store write into it, and a connection that breaks."""

import duckdb

from pipelines.engine import Step
from pipelines.telemetry_schema import STORED
from pipelines.telemetry_store import TelemetryStore
from tests.pipelines.telemetry_rows import batch, engine, gpu_row, gpu_rows, steps


def made() -> list[Step]:
    """Steps that fill every kind of table: rows, findings, late, health, and state of every kind."""
    return steps(
        engine(), batch(2, gpu=gpu_rows(gpu_row(1, celsius=95), gpu_row(3), gpu_row(3, gpu=1))),
        batch(4, gpu=gpu_rows(gpu_row(0.5), gpu_row(4, celsius=97))),
    )  # fmt: skip


def counts(store: TelemetryStore) -> dict[str, int]:
    return dict(store.query(" union all ".join(f"select '{name}', count(*) from {name}" for name, _ in STORED)).rows())


OUT_OF_MEMORY = duckdb.OutOfMemoryException("out of memory")


class Failing:
    """A connection whose n-th statement fails."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, after: int,
        error: Exception = OUT_OF_MEMORY,
    ) -> None:  # fmt: skip
        self._connection, self._left, self._error = connection, after, error

    def execute(self, *arguments: object) -> object:
        self._left -= 1
        if self._left < 0:
            raise self._error
        return self._connection.execute(*arguments)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)
