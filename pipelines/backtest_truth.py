"""What was really wrong in a window: people's labels where there are any, else the incidents of the time."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import polars as pl

from pipelines.counterfactual import fired, same
from pipelines.operations_store import OperationsStore
from pipelines.operations_verdicts import Verdicts
from pipelines.sources.contract import SourceError
from replay.recording import read_labels
from replay.simulate import LABEL_COLUMNS
from schemas.incident import Incident
from schemas.topology import node_of


@dataclass(frozen=True, kw_only=True)
class Truth:
    """wrong: what was wrong, as incidents (of a label, detected_at is its onset and severity is unknown: page).
    told: in words, where this is known from.
    """

    wrong: tuple[Incident, ...]
    told: str


@dataclass(frozen=True, kw_only=True)
class Explained:
    """Incidents by the id of what was wrong, in order of detection, and those that nothing explains."""

    by_truth: dict[str, list[Incident]] = field(default_factory=dict)
    unexplained: list[Incident] = field(default_factory=list)

    def first(self, truth: Incident) -> Incident | None:
        """The first of them that names a right root, and was told to a person; an info is so only where no more was
        called for.
        """
        wanted = ("page", "ticket", "info") if truth.severity == "info" else ("page", "ticket")
        every = self.by_truth.get(truth.id, ())
        return next((one for one in every if one.severity in wanted and names_root(truth, one)), None)

    def instead(self, truth: Incident) -> Incident | None:
        """The first of them, where none is as above: a symptom, or too quiet."""
        every = self.by_truth.get(truth.id, [])
        return every[0] if every and self.first(truth) is None else None


def names_root(truth: Incident, incident: Incident) -> bool:
    """Whether it names a right root, or the node of one: a GPU for its node and the other way round is another root,
    but not a miss.
    """
    right, said = ({*one.roots, *(node_of(root) for root in one.roots)} for one in (truth, incident))
    return bool(right & said)


def past_truth(operations: OperationsStore, past: Sequence[Incident]) -> Truth:
    """Incidents of the time, without those that people judged false."""
    false = Verdicts(operations).false()
    wrong = tuple(one for one in past if one.id not in false)
    count = len(past) - len(wrong)
    marks = f", {count} of them judged false by people" if count else "; none is judged false"
    told = (
        f"incidents decided at the time count as true ({len(past)}{marks}). What nobody knew of counts as false when "
        "it appears: look at it"
    )
    return Truth(wrong=wrong, told=told)


def labelled_truth(labels: pl.DataFrame, where: str) -> Truth:
    """Labels (schemas.label) as what was wrong."""
    wrong = tuple(
        Incident(
            id=f"label-{number}", cause=row["cause"], severity="page", state="resolved", root_kind=row["root_kind"],
            roots=tuple(row["roots"]), members=tuple(row["members"] or ()), symptoms=(), starts_at=row["starts_at"],
            detected_at=row["starts_at"], ends_at=row["ends_at"], evidence=(),
        )
        for number, row in enumerate(labels.iter_rows(named=True), 1)
    )  # fmt: skip
    return Truth(wrong=wrong, told=f"people's labels in {where}: {len(wrong)}")


def labels_at(path: Path) -> pl.DataFrame:
    """Labels of a recording folder, or of a Parquet file with its columns. Raises SourceError, RecordingError."""
    if path.is_dir():
        return read_labels(path)
    try:
        return pl.read_parquet(path).select(pl.col(name).cast(dtype) for name, dtype in LABEL_COLUMNS.items())
    except FileNotFoundError:
        raise SourceError(f"--labels {path}: no such file or folder") from None
    except (pl.exceptions.PolarsError, OSError) as error:
        raise SourceError(f"--labels {path}: not labels in Parquet ({str(error).splitlines()[0][:120]})") from None


def past_incidents(operations: OperationsStore, begin: datetime, end: datetime) -> tuple[Incident, ...]:
    """Incidents of the time that fired and lasted into begin <= time < end, in order of detection."""
    every = operations.incidents(limit=None)
    return tuple(one for one in fired(every) if one.detected_at < end and (one.ends_at is None or one.ends_at >= begin))


def explained(wrong: Sequence[Incident], incidents: Iterable[Incident]) -> Explained:
    """Whom each incident speaks of: the same cause and roots, else a root in common, else a member, at the same time;
    of several the one that began nearest to it.
    """
    by_entity: dict[str, list[Incident]] = {}
    for one in wrong:
        for entity in {*one.roots, *one.members}:
            by_entity.setdefault(entity, []).append(one)
    found = Explained()
    for incident in fired(incidents):
        near = {one.id: one for entity in (*incident.roots, *incident.members) for one in by_entity.get(entity, ())}
        owners = [one for one in near.values() if same(one, incident, exact=False)]
        if not owners:
            found.unexplained.append(incident)
            continue
        owner = max(owners, key=lambda one: _closeness(one, incident))
        found.by_truth.setdefault(owner.id, []).append(incident)
    return found


def _closeness(truth: Incident, incident: Incident) -> tuple[bool, bool, float, str]:
    exact = (truth.cause, truth.roots) == (incident.cause, incident.roots)
    apart_seconds = abs((truth.starts_at - incident.starts_at).total_seconds())
    return exact, bool({*truth.roots} & {*incident.roots}), -apart_seconds, truth.id
