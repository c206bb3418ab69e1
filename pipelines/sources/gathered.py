"""Arrivals in larger bites, and the next one fetched while this one is judged: less time for the same findings, since a
step of the engine has a cost of its own and findings do not depend on the cut.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import polars as pl

from pipelines.engine import Batch
from pipelines.source_notes import together
from pipelines.sources.contract import Arrival

ROWS_AT_ONCE = 1_500_000
"""Of a step: some 300 MB, and a tenth of what the rows themselves cost is left of its fixed cost."""
LONGEST = timedelta(hours=1)


def gathered(arrivals: Iterator[Arrival], rows: int = ROWS_AT_ONCE) -> Iterator[Arrival]:
    """Arrivals one after the other as one, up to so many rows or an hour. Those that say otherwise how late rows of a
    node come stay apart: that is said of a whole step.
    """
    held: list[Arrival] = []
    count = 0
    for arrival in arrivals:
        size = sum(frame.height for frame in arrival.batch.tables.values())
        is_enough = count + size > rows or (held and arrival.batch.now - held[0].batch.now >= LONGEST)
        if held and (is_enough or held[-1].batch.lags != arrival.batch.lags):
            yield _as_one(held)
            held, count = [], 0
        held.append(arrival)
        count += size
    if held:
        yield _as_one(held)


def _as_one(arrivals: list[Arrival]) -> Arrival:
    last = arrivals[-1]
    if len(arrivals) == 1:
        return last
    names = dict.fromkeys(name for one in arrivals for name in one.batch.tables)
    ignored: dict[str, int] = {}
    for one in arrivals:
        for key, rows in one.ignored.items():
            ignored[key] = ignored.get(key, 0) + rows
    batch = Batch(
        tables={name: pl.concat([one.batch.tables[name] for one in arrivals if name in one.batch.tables])
                for name in names},
        now=max(one.batch.now for one in arrivals), lags=last.batch.lags,
        quarantined=pl.concat([one.batch.quarantined for one in arrivals]),
    )  # fmt: skip
    return replace(last, batch=batch, ignored=ignored, notes=together([one.notes for one in arrivals]))


def ahead(arrivals: Iterator[Arrival]) -> Iterator[Arrival]:
    """The same, with the next one fetched by another thread while this one is used."""
    with ThreadPoolExecutor(1, "arrivals") as other:
        following = other.submit(next, arrivals, None)
        while (arrival := following.result()) is not None:
            following = other.submit(next, arrivals, None)
            yield arrival
