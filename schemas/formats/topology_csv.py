"""nodes.csv, links.csv and aliases.csv of a folder: the columns of schemas.topology, most of them optional.

nodes.csv must have node; links.csv must have cable, a and b; aliases.csv, which may be missing, has all. An empty cell
is null; unknown columns are left out.
"""

import csv
from dataclasses import replace

import polars as pl

from schemas.formats.decoded import Unreadable
from schemas.identity import alias_table
from schemas.topology import ALIAS_COLUMNS, LINK_COLUMNS, NODE_COLUMNS, TIERS, Topology, topology_from_frames

NAME_CHARACTERS_MAXIMUM = 256
_AT_MOST = f"at most {NAME_CHARACTERS_MAXIMUM} characters"
_NEEDED = {
    "nodes.csv": ("node",), "links.csv": ("cable", "a", "b"), "aliases.csv": ("kind", "alias", "entity"),
}  # fmt: skip


def decode_topology(
    name: str, nodes_csv: bytes | str, links_csv: bytes | str, aliases_csv: bytes | str = b"", *, gpus_per_node: int = 8
) -> Topology:
    """Raises Unreadable, as the three below."""
    nodes, links = decode_nodes(nodes_csv), decode_links(links_csv)
    aliases = decode_aliases(aliases_csv) if aliases_csv else pl.DataFrame(schema=ALIAS_COLUMNS)
    return replace(topology_from_frames(name, nodes, links, gpus_per_node=gpus_per_node), aliases=aliases)


def decode_nodes(text: bytes | str) -> pl.DataFrame:
    """NODE_COLUMNS. Raises Unreadable with file, line and reason; one bad line refuses the whole, as half a topology
    would hide faults.
    """
    nodes = _typed("nodes.csv", text, NODE_COLUMNS)
    _refuse("nodes.csv", nodes, "role", pl.col("role").is_in(["compute", "spare"]).not_(), "compute or spare")
    return nodes


def decode_links(text: bytes | str) -> pl.DataFrame:
    """LINK_COLUMNS. Raises Unreadable likewise."""
    links = _typed("links.csv", text, LINK_COLUMNS)
    _refuse("links.csv", links, "tier", pl.col("tier").is_in(TIERS).not_(), f"one of {', '.join(TIERS)}")
    return links


def decode_aliases(text: bytes | str) -> pl.DataFrame:
    """ALIAS_COLUMNS, each alias in its one spelling. Raises Unreadable likewise."""
    rows = _typed("aliases.csv", text, ALIAS_COLUMNS)
    try:
        return alias_table(rows.rows())
    except ValueError as error:
        raise Unreadable(f"aliases.csv: {error}") from None


def encode_aliases(aliases: pl.DataFrame) -> str:
    return _text(aliases, ALIAS_COLUMNS)


def encode_nodes(nodes: pl.DataFrame) -> str:
    return _text(nodes, NODE_COLUMNS)


def encode_links(links: pl.DataFrame) -> str:
    return _text(links, LINK_COLUMNS)


def _text(frame: pl.DataFrame, columns: pl.Schema) -> str:
    return frame.select(columns.names()).write_csv(line_terminator="\n")


def _typed(file: str, text: bytes | str, columns: pl.Schema) -> pl.DataFrame:
    cells = _cells(file, text)
    for column in _NEEDED[file]:
        if column not in cells.columns:
            raise Unreadable(f"{file}: column {column} is missing; it has {', '.join(cells.columns)}")
        _refuse(file, cells, column, pl.col(column).is_null(), "a name, and must be there")
    for column, dtype in columns.items():
        if column not in cells.columns:
            continue
        if dtype == pl.String:
            bad, wanted = pl.col(column).str.len_chars() > NAME_CHARACTERS_MAXIMUM, _AT_MOST
        elif dtype == pl.Int64:
            bad, wanted = pl.col(column).cast(dtype, strict=False).is_null(), "a whole number"
        else:
            number = pl.col(column).cast(dtype, strict=False).is_finite()
            bad, wanted = number.fill_null(value=False).not_(), "a number"
        _refuse(file, cells, column, pl.col(column).is_not_null() & bad, wanted)
    return cells.select(
        pl.col(column).cast(dtype) if column in cells.columns else pl.lit(None, dtype).alias(column)
        for column, dtype in columns.items()
    )


def _cells(file: str, text: bytes | str) -> pl.DataFrame:
    """All cells as text, without the spaces around them."""
    payload = text.encode() if isinstance(text, str) else text
    if not payload.strip():
        raise Unreadable(f"{file}: empty; its first line must name the columns")
    if b"\0" in payload:
        raise Unreadable(f"{file}: byte {payload.index(0)} is NUL; this is not text")
    try:
        payload.decode()
        frame = pl.read_csv(payload, infer_schema=False)
    except UnicodeDecodeError as error:
        raise Unreadable(f"{file}: byte {error.start} is not UTF-8") from error
    except pl.exceptions.PolarsError as error:
        raise Unreadable(f"{file}: not CSV: {str(error).splitlines()[0]}") from error
    header = [column.strip() for column in next(csv.reader([payload.decode("utf-8-sig").split("\n", 1)[0]]))]
    twice = next((column for column in header if header.count(column) > 1), None)
    if twice is not None:
        raise Unreadable(f"{file}: column {twice or 'without a name'} is there twice")
    stripped = pl.all().str.strip_chars()
    return frame.rename(str.strip).select(pl.when(stripped != "").then(stripped).name.keep())


def _refuse(file: str, frame: pl.DataFrame, column: str, bad: pl.Expr, wanted: str) -> None:
    found = frame.with_row_index("line", offset=2).filter(bad)
    if found.height:
        line, value = found.select("line", column).row(0)
        shown = "empty" if value is None else repr(str(value)[:80])
        raise Unreadable(f"{file} line {line}: {column} is {shown}, but should be {wanted}")
