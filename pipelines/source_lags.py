"""How much later than others' the rows of nodes came, kept beside the stream's state: a row where that changes.

Timelines, bundles and replays of the store's windows need it: rows do not say when they arrived.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import duckdb

from pipelines.engine import Step

CHANGE_SECONDS = 1.0


def write_lags(connection: duckdb.DuckDBPyConnection, stream: str, steps: Sequence[Step]) -> None:
    """What changed by more than CHANGE_SECONDS, as of the step's watermark; 0 where a node comes in time again."""
    found = connection.execute(
        "select node, arg_max(lag_seconds, since) from source_lags where stream = ? group by node", [stream]
    ).fetchall()
    known: dict[str, float] = dict(found)
    for step in steps:
        lags = {node: lag.total_seconds() for node, lag in step.lags.items()}
        for node in sorted(known.keys() | lags.keys()):
            lag = lags.get(node, 0.0)
            if abs(lag - known.get(node, 0.0)) > CHANGE_SECONDS:
                known[node] = lag
                connection.execute(
                    "insert or replace into source_lags values (?, ?, ?, ?)", [stream, node, step.state.now, lag]
                )


def read_lags(connection: duckdb.DuckDBPyConnection, begin: datetime, end: datetime) -> Mapping[str, timedelta]:
    """The longest lag of each node, slow or fast, in begin <= time < end; nodes that came in time are left out."""
    found = connection.execute(
        "select node, arg_max(lag_seconds, abs(lag_seconds)) as lag from (select node, lag_seconds, since, lead(since) "
        "over (partition by stream, node order by since) as until from source_lags) "
        "where since < $end and coalesce(until > $begin, true) group by node having lag <> 0 order by node",
        {"begin": begin, "end": end},
    ).fetchall()
    return {node: timedelta(seconds=lag) for node, lag in found}
