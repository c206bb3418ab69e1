"""A word or a name that a person typed, against those that there are."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TypeVar

from pipelines.cli.output import Refused
from schemas.topology import Topology

Word = TypeVar("Word", bound=str)


def known(word: str, words: Sequence[Word], what: str) -> Word:
    """The word, if it is one of them. Raises Refused with what was probably meant."""
    for one in words:
        if one == word:
            return one
    plain = [str(one) for one in words]
    close = get_close_matches(word, plain, n=1) or [one for one in plain if word and word in one]
    hint = f"did you mean {' or '.join(close[:3])}?" if close else f"known: {', '.join(plain)}"
    joint = "" if what.endswith("=") else " "
    raise Refused(f"{what}{joint}{word}: not known; {hint}")


def places_of(topology: Topology) -> set[str]:
    """Names of its nodes, switches, links and domains."""
    domains = {name for _, name in topology.nodes_by_domain}
    return {*topology.node_rows, *topology.links_by_device, *topology.link_rows, *domains}
