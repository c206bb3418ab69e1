"""hotspare quarantine: every row and message that was refused, with the rule, the reason, the place and the bytes."""

from typing import Annotated, Any

import typer

from pipelines.cli.heard import place_of, text_of
from pipelines.cli.output import AsJson, SettingsFile, console, moment, print_json, table
from pipelines.cli.session import settings_at, telemetry_store

SHOWN_CHARACTERS = 80
ROWS = """
    select time, "table", source, rule, reason, topic, partition, "offset", raw from quarantine
    where (? is null or rule = ?) and (? is null or "table" = ?) and (? is null or contains(topic, ?))
    order by topic, partition, "offset", time, rule
    limit ?
"""
COUNT = """
    select count(*) from quarantine
    where (? is null or rule = ?) and (? is null or "table" = ?) and (? is null or contains(topic, ?))
"""


def quarantine(
    rule: Annotated[str | None, typer.Option(help="Only what broke this rule, e.g. temperature_celsius|max.")] = None,
    table_name: Annotated[str | None, typer.Option("--table", help="Only what was meant for this table.")] = None,
    origin: Annotated[
        str | None, typer.Option("--from", help="Only of topics or files with this in their name.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="At most so many.")] = 50,
    settings: SettingsFile = None,
    as_json: AsJson = False,
) -> int:
    """List refused rows and messages: where each came from, the rule it broke, and what it was."""
    store = telemetry_store(settings_at(settings))
    wanted: list[Any] = [rule, rule, table_name, table_name, origin, origin]
    found = store.query(ROWS, [*wanted, limit])
    count = store.query(COUNT, wanted).item()
    rows = [
        {
            "place": place_of(row["topic"], row["partition"], row["offset"]),
            **{name: row[name] for name in ("table", "source", "rule", "reason", "time")},
            "raw": None if row["raw"] is None else text_of(row["raw"]),
        }
        for row in found.iter_rows(named=True)
    ]
    if as_json:
        print_json({"rows": rows, "count": count})
        return 0
    if not rows:
        console().print("Nothing refused that this asks for." if any(wanted) else "Nothing was refused.")
        return 0
    more = f" (first {len(rows)} of {count}; --limit and --json show more)" if count > len(rows) else ""
    heads = ("place", "table", "source", "rule", "reason", "time", "raw")
    shown = (
        (*(row[name] for name in heads[:5]), moment(row["time"]), (row["raw"] or "")[:SHOWN_CHARACTERS]) for row in rows
    )
    console().print(table(f"Refused{more}", heads, shown))
    return 0
