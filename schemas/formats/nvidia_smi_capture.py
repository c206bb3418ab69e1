"""A capture of many nvidia-smi calls in one file, each under a banner of `#` lines: the `--query-gpu` CSV and the `-q`
text are read, with the times that stand in them; the rest (help, topology, processes) is no telemetry.
"""

import polars as pl

from schemas.formats import nvidia_smi_csv, nvidia_smi_text, payload
from schemas.formats.decoded import Decoded, Surroundings, Unreadable

NAME = "nvidia-smi capture"
VERSIONS = "a session that shows nvidia-smi commands and their outputs one after the other"
LEAVES = "outputs of commands that are no -q, -x or --query-gpu"
RULE = "#" * 20


def looks_like(head: bytes, name: str) -> bool:  # noqa: ARG001  every format answers to the same question
    text = payload.head_text(head)
    return text.startswith(RULE) and ("nvidia-smi" in text or " :: " in text)


def decode(data: bytes, surroundings: Surroundings) -> Decoded:
    """Rows of gpu and gpu_event of all sections that this product knows, in the order of time."""
    parts: list[Decoded] = []
    for title, first_line, lines in _sections(payload.text(data, surroundings, NAME).splitlines()):
        if "query-gpu (csv" in title:
            parts.append(nvidia_smi_csv.decode_lines(lines, surroundings, first_line))
        elif "query (-q)" in title:
            parts.append(nvidia_smi_text.decode_lines(lines, surroundings, first_line))
    if not parts:
        raise Unreadable(f"{NAME}: no section `query-gpu (csv` or `query (-q)`")
    names = dict.fromkeys(name for part in parts for name in part.tables)
    tables = {
        name: pl.concat((part.tables[name] for part in parts if name in part.tables), how="diagonal").sort("time")
        for name in names
    }
    return Decoded(
        tables=tables,
        rejects=pl.concat(part.rejects for part in parts),
        missing=tuple(column for column in parts[0].missing if all(column in part.missing for part in parts)),
    )


def _sections(lines: list[str]) -> list[tuple[str, int, list[str]]]:
    """Title, number of the first line and lines of each section. A banner is a rule, lines of comment, and a rule."""
    sections: list[tuple[str, int, list[str]]] = []
    banner: list[str] | None = None
    for number, line in enumerate(lines, 1):
        if line.startswith(RULE):
            if banner is None:
                banner = []
            else:
                sections.append((banner[0] if banner else "", number + 1, []))
                banner = None
        elif banner is not None and line.startswith("#"):
            banner.append(line.lstrip("# "))
        elif sections:
            banner = None
            sections[-1][2].append(line)
    return sections
