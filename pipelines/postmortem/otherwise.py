"""What another setting would have done: the bundle judged with the settings of that time and with others."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.bundles.bundle import Bundle
from pipelines.bundles.source import bundle_source
from pipelines.counterfactual import Difference, differences, fired, pairs
from pipelines.pacing import window_seconds
from pipelines.rejudge import Rejudged, rejudge
from pipelines.settings import Settings, settings_from
from schemas.incident import Incident

SHOWN_MAXIMUM = 40


@dataclass(frozen=True, kw_only=True)
class Otherwise:
    """name: of the other settings. changed: (key, then, with the others). verdict: about this incident, in words.
    seconds_earlier: by which it would have been found; None where it would not.
    """

    name: str
    changed: tuple[tuple[str, str, str], ...]
    verdict: str
    seconds_earlier: float | None
    differences: tuple[Difference, ...]

    @property
    def document(self) -> dict[str, Any]:
        """Plain data."""
        changed = [{"key": key, "then": then, "other": other} for key, then, other in self.changed]
        listed = [{**vars(one), "roots": list(one.roots)} for one in self.differences[:SHOWN_MAXIMUM]]
        return {
            "settings": self.name, "changed": changed, "verdict": self.verdict,
            "seconds_earlier": self.seconds_earlier, "differences": listed,
            "differences_left_out": max(0, len(self.differences) - SHOWN_MAXIMUM),
        }  # fmt: skip


def otherwise(bundle: Bundle, other: Settings, name: str) -> Otherwise:
    """The bundle twice through engine and recovery, in memory. Raises SettingsError for a bundle's settings that this
    hotspare does not know, SourceError.
    """
    then = recorded(bundle, other)
    sides = [rejudge(bundle_source(bundle, seconds=window_seconds(None)), one) for one in (then, other)]
    verdict, earlier = _verdict(bundle.incident, *sides)
    before, after = (one.model_dump(mode="json", include={"detectors", "recovery"}) for one in (then, other))
    return Otherwise(
        name=name, changed=tuple(_changed(before, after)), verdict=verdict, seconds_earlier=earlier,
        differences=differences(*sides),
    )  # fmt: skip


def recorded(bundle: Bundle, rest: Settings) -> Settings:
    """The settings with which the incident was judged; what a bundle does not hold is taken from `rest`."""
    judged = settings_from(bundle.manifest.settings, "manifest.json: settings")
    return rest.model_copy(update={"detectors": judged.detectors, "recovery": judged.recovery})


def differs(bundle: Bundle, other: Settings) -> bool:
    """Whether the other settings would judge or act by anything else than those of the bundle."""
    then = recorded(bundle, other)
    return (then.detectors, then.recovery) != (other.detectors, other.recovery)


def _verdict(incident: Incident, before: Rejudged, after: Rejudged) -> tuple[str, float | None]:
    here = _counterpart(incident, before)
    there = _counterpart(here or incident, after)
    if there is None:
        return "it would not have been found", None
    if here is None:
        return f"it is not found again with the settings of then, and is with these, as {there.cause}", None
    earlier = (here.detected_at - there.detected_at).total_seconds()
    when = f"{abs(earlier):.1f} s {'earlier' if earlier > 0 else 'later'}" if earlier else "at the same time"
    also = [f"as {there.cause}"] if there.cause != here.cause else []
    also += [f"as a {there.severity} and not a {here.severity}"] if there.severity != here.severity else []
    asked, would = (
        {(one.request.kind, one.request.target) for one in side.actions if one.request.incident == mine.id}
        for side, mine in ((before, here), (after, there))
    )
    also += [f"with {len(would - asked)} further actions asked for"] if would - asked else []
    also += [f"without {len(asked - would)} of the actions"] if asked - would else []
    return f"it would have been found {', '.join([when, *also])}", earlier


def _counterpart(incident: Incident, side: Rejudged) -> Incident | None:
    found = pairs([incident], fired(side.incidents.values()))
    return found[0][1] if found else None


def _changed(before: Any, after: Any, place: str = "") -> Iterator[tuple[str, str, str]]:
    """Leaves of two trees that differ; a key that is not there stands for the default."""
    if not (isinstance(before, Mapping) and isinstance(after, Mapping)):
        if before != after:
            yield place, "default" if before is None else str(before), "default" if after is None else str(after)
        return
    for key in sorted(before.keys() | after.keys()):
        one, other = before.get(key), after.get(key)
        nested = isinstance(one, Mapping) or isinstance(other, Mapping)
        yield from _changed(
            one or {} if nested else one, other or {} if nested else other, f"{place}.{key}".removeprefix(".")
        )
