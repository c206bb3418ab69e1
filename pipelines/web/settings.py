"""Who may write through the console of `hotspare serve`. Nobody by default: it only shows."""

import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

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
        """Never stored, never printed; None where there is none, or one that is too short to be a secret."""
        file = self.token_file
        found = (os.environ.get(TOKEN_VARIABLE, "") if file is None else file.read_text("utf-8")).strip()
        return found if len(found) >= TOKEN_CHARACTERS_MINIMUM else None
