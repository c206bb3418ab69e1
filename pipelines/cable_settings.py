"""[cable] in hotspare.toml: how fibres are accepted where the command line says nothing else."""

from dataclasses import fields, replace

from pydantic import BaseModel, ConfigDict, Field, field_validator

from detectors.fiber.bend import DELTA_DB
from detectors.fiber.limits import GRADES, Limits, grade
from detectors.fiber.resolution import Resolution

RESOLUTION = Resolution()


class CableSettings(BaseModel):
    """grade: tia, reference, strict, b, c or d; the limits that follow replace its own. budget_db: of the whole fibre;
    reckoned from attenuation and connectors when not given. launch_meters, tail_meters: reels that are always used.
    What these mean, with their sources: detectors/fiber/limits.py and resolution.py.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    grade: str = GRADES[0].name
    connector_loss_db: float | None = Field(default=None, gt=0)
    splice_loss_db: float | None = Field(default=None, gt=0)
    reflectance_db: float | None = Field(default=None, lt=0)
    reflectance_multimode_db: float | None = Field(default=None, lt=0)
    attenuation_db_per_kilometer: float | None = Field(default=None, gt=0)
    attenuation_multimode_db_per_kilometer: float | None = Field(default=None, gt=0)
    budget_db: float | None = Field(default=None, gt=0)
    launch_meters: float | None = Field(default=None, gt=0)
    tail_meters: float | None = Field(default=None, gt=0)
    macrobend_db: float = Field(default=DELTA_DB, gt=0)
    gainer_db: float = Field(default=0.1, ge=0)
    recovery_meters: float = Field(default=RESOLUTION.recovery_meters, ge=0)
    event_recovery_meters: float = Field(default=RESOLUTION.event_recovery_meters, ge=0)
    group_index_uncertainty: float = Field(default=RESOLUTION.group_index_uncertainty, ge=0, lt=0.1)

    @field_validator("grade")
    @classmethod
    def _known(cls, value: str) -> str:
        return grade(value).name

    def limits(self, grade_name: str | None = None) -> Limits:
        """The grade's limits with what is set. Raises ValueError for a grade that there is not."""
        chosen = grade(grade_name or self.grade)
        names = {field.name for field in fields(Limits)} & set(type(self).model_fields)
        return replace(chosen, **{name: getattr(self, name) for name in names if getattr(self, name) is not None})

    def resolution(self) -> Resolution:
        return Resolution(
            recovery_meters=self.recovery_meters, event_recovery_meters=self.event_recovery_meters,
            group_index_uncertainty=self.group_index_uncertainty,
        )  # fmt: skip
