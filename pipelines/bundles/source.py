"""A bundle as a source: replayed like a recording, anywhere."""

from collections.abc import Iterator
from datetime import timedelta

from pipelines.bundles.bundle import Bundle
from pipelines.sources.windows import WindowSource
from replay.simulate import Window
from schemas.tables import TABLES, empty


def bundle_source(bundle: Bundle, *, seconds: int) -> WindowSource:
    """Windows of `seconds` of event time. Rows were admitted once; they pass the door again unchanged."""
    manifest = bundle.manifest

    def windows() -> Iterator[Window]:
        at = manifest.starts_at
        while at < manifest.ends_at:
            until = min(at + timedelta(seconds=seconds), manifest.ends_at)
            tables = {
                table.name: bundle.tables[table.name].filter(
                    (bundle.tables[table.name][table.time] >= at) & (bundle.tables[table.name][table.time] < until)
                )
                if table.name in bundle.tables else empty(table)
                for table in TABLES
            }  # fmt: skip
            yield Window(at, until, tables)
            at = until

    return WindowSource(
        stream=f"bundle:{manifest.incident}", topology=bundle.topology, intervals_seconds=manifest.intervals,
        span_seconds=(manifest.ends_at - manifest.starts_at).total_seconds(), windows=windows,
    )  # fmt: skip
