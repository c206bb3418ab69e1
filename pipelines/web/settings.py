"""Who may write through the console of `hotspare serve`. Nobody by default: it only shows."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from pipelines.recovery.executors.settings import secret

TOKEN_VARIABLE = "HOTSPARE_API_TOKEN"  # noqa: S105  the name of the variable, not what is in it
TOKEN_CHARACTERS_MINIMUM = 16


class WebSettings(BaseModel):
    """Section `web`. token_file: a file with the bearer token that POST /api/events wants; without it the variable
    HOTSPARE_API_TOKEN is read. body_bytes_maximum: of one request.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    token_file: Path | None = None
    body_bytes_maximum: int = Field(default=65536, gt=0, le=16 * 1024 * 1024)

    def token(self) -> str | None:
        """Never stored, never printed; None where there is none, or one that is too short to be a secret. Raises
        OSError, and UnicodeDecodeError for a file that is no text.
        """
        found = secret(self.token_file, TOKEN_VARIABLE).strip()
        return found if len(found) >= TOKEN_CHARACTERS_MINIMUM else None
