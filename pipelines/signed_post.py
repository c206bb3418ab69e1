"""One signed POST with a bounded number of tries: what webhooks of executors and of notifiers have in common.

The signature is HMAC-SHA256 over "<unix seconds>.<body>" in X-Hotspare-Signature: t=<seconds>,v1=<hex>; a receiver
checks both, so that neither a forged nor an old request counts. Idempotency-Key is the action's or page's own id.
A try is repeated only where the receiver cannot have acted: it was not reached, or said 429 or 503.
"""

import hashlib
import hmac
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

PAUSES_SECONDS = (0.2, 1.0, 3.0)
Reached = Literal["taken", "not_reached", "refused", "unknown"]


@dataclass(frozen=True)
class Reply:
    """reached: taken (2xx) | not_reached (safe to try again) | refused (4xx, 5xx) | unknown (sent, and no answer).
    status: of the answer, if there was one.
    """

    reached: Reached
    detail: str
    body: bytes = b""
    status: int | None = None


@dataclass(frozen=True, kw_only=True)
class SignedPost:
    """url: where to. secret: shared with the receiver; empty sends no signature. tries: at most so many."""

    url: str
    secret: bytes = field(default=b"", repr=False)
    timeout_seconds: float = 5.0
    tries: int = 3
    ca_file: str | None = None
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep

    def send(self, body: bytes, key: str) -> Reply:
        reply = Reply("not_reached", "never tried")
        for number in range(self.tries):
            if number:
                self.sleep(PAUSES_SECONDS[min(number, len(PAUSES_SECONDS)) - 1])
            reply = self._once(body, key)
            if reply.reached != "not_reached":
                break
        return reply

    def _once(self, body: bytes, key: str) -> Reply:
        import httpx  # noqa: PLC0415  # costs every command a fifth of a second, and few need it

        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        if self.secret:
            headers["X-Hotspare-Signature"] = signature(self.secret, body, int(self.clock()))
        try:
            verify = True if self.ca_file is None else ssl.create_default_context(cafile=self.ca_file)
            answer = httpx.post(
                self.url, content=body, headers=headers, timeout=self.timeout_seconds, follow_redirects=False,
                verify=verify,
            )  # fmt: skip
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            return Reply("not_reached", f"{self.url}: {error}")
        except (httpx.InvalidURL, UnicodeError, OSError) as error:  # no host's name, or ca_file cannot be read
            return Reply("not_reached", f"{self.url}: {error}")
        except httpx.HTTPError as error:
            return Reply("unknown", f"{self.url}: {type(error).__name__}: it may have been taken")
        if answer.is_success:
            return Reply("taken", f"{self.url}: {answer.status_code}", answer.content, answer.status_code)
        reached: Reached = "not_reached" if answer.status_code in (429, 503) else "refused"
        detail = f"{self.url}: {answer.status_code} {answer.text[:200]}".replace("\n", " ")
        return Reply(reached, detail, status=answer.status_code)


def longest_seconds(tries: int, timeout_seconds: float) -> float:
    """How long a post may take when nobody answers."""
    pauses = (PAUSES_SECONDS[min(number, len(PAUSES_SECONDS)) - 1] for number in range(1, tries))
    return tries * timeout_seconds + sum(pauses)


def signature(secret: bytes, body: bytes, at: int) -> str:
    said = hmac.new(secret, f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={said}"
