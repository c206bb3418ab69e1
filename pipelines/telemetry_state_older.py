"""How state was stored in earlier versions of the telemetry store, for the migrations that lead away from it."""

import io

import duckdb
import polars as pl


def gather_state(connection: duckdb.DuckDBPyConnection) -> None:
    """Up to version 3 a frame was a table, state."<stream>|<name>"; then a stream's frames were rows of one table."""
    streams = connection.execute("select stream from engine_state").fetchall()
    for (stream,) in streams:
        mine = [name for name in _tables(connection) if name.startswith(f"{stream}|")]
        if mine:
            connection.execute(f"create table {_quoted(stream)} (name varchar, frame blob)")
        for name in mine:
            packed = io.BytesIO()
            connection.sql(f"select * from {_quoted(name)}").pl().write_ipc(packed)  # noqa: S608 quoted
            connection.execute(
                f"insert into {_quoted(stream)} values (?, ?)",  # noqa: S608 quoted
                [name.removeprefix(f"{stream}|"), packed.getvalue()],
            )
            connection.execute(f"drop table {_quoted(name)}")


def taken_from_tables(connection: duckdb.DuckDBPyConnection) -> dict[str, dict[str, pl.DataFrame]]:
    """Up to version 5 they were such rows: frames by name by stream, whose tables are dropped."""
    found: dict[str, dict[str, pl.DataFrame]] = {}
    for stream in _tables(connection):
        rows = connection.execute(f"select name, frame from {_quoted(stream)}").fetchall()  # noqa: S608 quoted
        found[stream] = {name: pl.read_ipc(io.BytesIO(frame)) for name, frame in rows}
        connection.execute(f"drop table {_quoted(stream)}")
    return found


def _tables(connection: duckdb.DuckDBPyConnection) -> list[str]:
    sql = "select table_name from duckdb_tables() where schema_name = 'state'"
    return [name for (name,) in connection.execute(sql).fetchall()]


def _quoted(name: str) -> str:
    quoted = name.replace('"', '""')
    return f'state."{quoted}"'
