"""Whom incidents are told to. Nobody by default but the console and the stores."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NotifySettings(_Section):
    """Section `notify`. alertmanager: its address, as http://localhost:9093. webhook: an address that gets a signed
    POST (secret_file, else HOTSPARE_NOTIFY_SECRET). topic: a Kafka topic. severities: which incidents are told.
    runbooks: where the pages of docs/runbooks are to be read. resend_seconds: Alertmanager forgets what is not said
    again; old_seconds: what was detected longer ago is history, and is not told,
    unless it lasts by what `serve` judges of these minutes, or could not be told when it began.
    """

    alertmanager: str = Field(default="", pattern=r"^(https?://\S+)?$")
    webhook: str = Field(default="", pattern=r"^(https?://\S+)?$")
    secret_file: Path | None = None
    topic: str = ""
    severities: tuple[Literal["page", "ticket", "info"], ...] = ("page", "ticket")
    runbooks: str = "docs/runbooks"
    timeout_seconds: float = Field(default=5.0, gt=0, le=60)
    resend_seconds: float = Field(default=60.0, gt=0)
    old_seconds: float = Field(default=3600.0, gt=0)
