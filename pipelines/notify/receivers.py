"""Where pages go: Alertmanager, a signed webhook, a Kafka topic, the console. Each is told once per change."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2s
from typing import Any, Protocol

import msgspec

from pipelines.notify.page import Page
from pipelines.signed_post import SignedPost


class PageRefused(str):
    """Why a receiver that is there did not take one page. It may take the others."""

    __slots__ = ()


class Receiver(Protocol):
    """name: under which deliveries are remembered. resends: whether it must be told again while the incident lasts."""

    @property
    def name(self) -> str: ...

    @property
    def resends(self) -> bool: ...

    def tell(self, page: Page, now: datetime) -> str | None:
        """None when it was taken; else one line that says why not, PageRefused where only this page is the trouble.
        now: wall-clock time. Raises nothing expected.
        """
        ...


@dataclass(frozen=True)
class Alertmanager:
    """API v2. One alert an incident, grouped by the label `incident`; it ends when the incident does.

    While it lasts it is said again, each time good for lasts_seconds: when nobody watches any more, it ends by itself.
    """

    url: str
    timeout_seconds: float = 5.0
    lasts_seconds: float = 600.0
    name: str = "alertmanager"
    resends: bool = True

    def tell(self, page: Page, now: datetime) -> str | None:
        import httpx  # noqa: PLC0415  # costs every command a fifth of a second, and few need it

        alert: dict[str, Any] = {
            "labels": page.labels,
            "annotations": {"summary": page.title, "description": page.text, "runbook_url": page.runbook},
            "startsAt": min(page.starts_at, now).isoformat(),
            "endsAt": (page.ends_at or now + timedelta(seconds=self.lasts_seconds)).isoformat(),
        }
        if page.runbook.startswith(("http://", "https://")):
            alert["generatorURL"] = page.runbook
        try:
            answer = httpx.post(
                f"{self.url.rstrip('/')}/api/v2/alerts", json=[alert], timeout=self.timeout_seconds,
                follow_redirects=False,
            )  # fmt: skip
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            return f"{self.url}: {type(error).__name__}: {error}"
        if answer.is_success:
            return None
        why = f"{self.url}: {answer.status_code} {answer.text[:200]}"
        return PageRefused(why) if is_refusal(answer.status_code) else why


@dataclass(frozen=True)
class Webhook:
    """{"incident", "title", "text", "labels", "runbook", "starts_at", "ends_at"} as one signed POST."""

    post: SignedPost
    name: str = "webhook"
    resends: bool = False

    def tell(self, page: Page, now: datetime) -> str | None:  # noqa: ARG002 - the protocol's
        said = document(page)
        # What is said of an incident later is another page: who takes a key once must not miss that it grew.
        reply = self.post.send(said, f"{page.incident}/{blake2s(said, digest_size=8).hexdigest()}")
        if reply.reached == "taken":
            return None
        return PageRefused(reply.detail) if reply.status is not None and is_refusal(reply.status) else reply.detail


@dataclass(frozen=True)
class Topic:
    """One message a change, keyed by the incident. send: (key, value) -> None when it was taken, else why not."""

    send: Callable[[bytes, bytes], str | None]
    name: str = "kafka"
    resends: bool = False

    def tell(self, page: Page, now: datetime) -> str | None:  # noqa: ARG002 - the protocol's
        return self.send(page.incident.encode(), document(page))


@dataclass(frozen=True)
class ConsoleReceiver:
    """The title and the text on standard error, where `serve` logs."""

    name: str = "console"
    resends: bool = False

    def tell(self, page: Page, now: datetime) -> str | None:  # noqa: ARG002 - the protocol's
        sys.stderr.write(f"{page.title}\n{page.text}\n\n")
        return None


def is_refusal(status: int) -> bool:
    """Whether an answer is about what was sent, and not about the time or who sent it."""
    return status in (400, 413, 422)


def document(page: Page) -> bytes:
    return msgspec.json.encode(vars(page), order="sorted")
