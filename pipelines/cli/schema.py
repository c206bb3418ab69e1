"""hotspare schema: the tables, their columns, types, units and ranges, from the schemas themselves."""

from typing import Annotated

import typer

from pipelines.cli.output import AsJson, Refused, console, print_json, table
from pipelines.docs import columns_of
from schemas.tables import TABLE_BY_NAME, TABLES


def schema(
    name: Annotated[str | None, typer.Argument(help="Table; all of them without one.")] = None,
    as_json: AsJson = False,
) -> int:
    """Print the tables' columns with types, units and ranges."""
    if name is not None and name not in TABLE_BY_NAME:
        raise Refused(f"no table {name!r}; tables: {', '.join(TABLE_BY_NAME)}")
    chosen = TABLES if name is None else (TABLE_BY_NAME[name],)
    if as_json:
        print_json({one.name: columns_of(one) for one in chosen})
        return 0
    for one in chosen:
        columns = ("column", "type", "unit", "range", "null", "meaning")
        rows = [tuple(column[key] for key in columns) for column in columns_of(one)]
        console().print(table(one.name, columns, rows))
    return 0
