"""What recovery may do by itself, and how much of it."""

from collections.abc import Iterable
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, field_validator

from detectors.catalog import CATALOG
from schemas.action import ActionKind, Mode

MODES: tuple[Mode, ...] = ("observe", "dry-run", "enforce")  # from the least to the most


def _two_people() -> dict[ActionKind, int]:
    return {"staged_shutdown": 2, "global_checkpoint": 2}


class RecoverySettings(BaseModel):
    """Section `recovery` of the settings. Everything is a dry run until it is set otherwise.

    mode: for all kinds of action; modes: for a kind; detector_modes: no more than this on the word of a detector (of
    several that say the same, the most trusted one counts). cooldown_seconds: between two actions of a kind on one
    target.
    resets_maximum in resets_window_days: per entity (2 in 7 days, NVIDIA's PDR plugin for UFM).
    isolated_links_minimum, isolated_links_share: at most the larger of both, the share being of all links
    (max(10, 0.5 %), the same plugin); isolated_links_per_device: and per node or switch at either end (ours).
    drained_nodes_minimum, drained_nodes_share: likewise of all nodes; drained_nodes_per_superblock (ours: domain.md 2.3
    counts 20 node failures a day on 3,072 nodes, and a day's repair).
    job_nodes_minimum, job_nodes_minimum_share: no drain leaves a job with fewer nodes than are set for it, or than
    this share of what it began with (ours).
    breaker_share, breaker_window_seconds: nodes acted on (50 % in 5 min, NVSentinel).
    approvals: how many people must agree before an action of a kind is carried out.
    expires_seconds: a request this much older than now waits for a person. dry_run_counts_seconds: for so long a dry
    run counts as if it had been done, so that dry runs meet the same budgets.
    attempts_maximum: of an action that fails without effect. unanswered_seconds: after that an intent without an
    outcome is resolved by asking the executor. targets_maximum: per step of an incident's plan.
    power_deadline_seconds: after a lost power domain the survivors' checkpoint waits so long for people, no longer
    (ours). lemon_drains, lemon_window_days: a node drained so often is no spare (two, as for resets).
    link_clean_seconds: a link returns after so long without a complaint (126 min, the same plugin);
    node_clean_seconds: likewise a node, after its diagnostics (ours).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    mode: Mode = "dry-run"
    modes: dict[ActionKind, Mode] = Field(default_factory=dict)
    detector_modes: dict[str, Mode] = Field(default_factory=dict)
    cooldown_seconds: float = Field(default=900.0, ge=0)
    resets_maximum: int = Field(default=2, ge=0)
    resets_window_days: float = Field(default=7.0, gt=0)
    isolated_links_minimum: int = Field(default=10, ge=0)
    isolated_links_share: float = Field(default=0.005, ge=0, le=1)
    isolated_links_per_device: int = Field(default=4, ge=0)
    drained_nodes_minimum: int = Field(default=8, ge=0)
    drained_nodes_share: float = Field(default=0.02, ge=0, le=1)
    drained_nodes_per_superblock: int = Field(default=4, ge=0)
    job_nodes_minimum: dict[str, int] = Field(default_factory=dict)
    job_nodes_minimum_share: float = Field(default=0.75, ge=0, le=1)
    breaker_share: float = Field(default=0.5, gt=0, le=1)
    breaker_window_seconds: float = Field(default=300.0, gt=0)
    approvals: dict[ActionKind, int] = Field(default_factory=_two_people)
    expires_seconds: float = Field(default=3600.0, gt=0)
    dry_run_counts_seconds: float = Field(default=86400.0, ge=0)
    attempts_maximum: int = Field(default=3, ge=1)
    unanswered_seconds: float = Field(default=60.0, ge=0)
    targets_maximum: int = Field(default=32, ge=1)
    power_deadline_seconds: float = Field(default=30.0, ge=0)
    lemon_drains: int = Field(default=2, ge=1)
    lemon_window_days: float = Field(default=30.0, gt=0)
    link_clean_seconds: float = Field(default=126 * 60.0, ge=0)
    node_clean_seconds: float = Field(default=1800.0, ge=0)

    @field_validator("detector_modes")
    @classmethod
    def _known_detectors(cls, modes: dict[str, Mode]) -> dict[str, Mode]:
        unknown = sorted(set(modes) - {detector.name for detector in CATALOG})
        if unknown:
            raise ValueError(f"no detector {unknown[0]!r}")
        return modes

    def mode_of(self, kind: ActionKind, detectors: Iterable[str] = ()) -> Mode:
        """The mode for a kind of action that these detectors call for."""
        own = self.modes.get(kind, self.mode)
        trusted = max((MODES.index(self.detector_modes.get(name, "enforce")) for name in detectors), default=2)
        return MODES[min(MODES.index(own), trusted)]

    def rehearsal(self, *kinds: ActionKind) -> Self:
        """The same settings without effects, for replays: what would be enforced is a dry run. kinds: only these."""
        if kinds:
            return self.model_copy(
                update={"modes": {**self.modes, **{kind: _quiet(self.mode_of(kind)) for kind in kinds}}}
            )
        quiet = {kind: _quiet(mode) for kind, mode in self.modes.items()}
        return self.model_copy(update={"mode": _quiet(self.mode), "modes": quiet})


def _quiet(mode: Mode) -> Mode:
    return "dry-run" if mode == "enforce" else mode
