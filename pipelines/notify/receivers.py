"""Where pages go: Alertmanager, a signed webhook, a Kafka topic, the console. Each is told once per change."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

import msgspec

from pipelines.notify.page import Page
from pipelines.signed_post import SignedPost


class Receiver(Protocol):
    """name: under which deliveries are remembered. resends: whether it must be told again while the incident lasts."""

    @property
    def name(self) -> str: ...

    @property
    def resends(self) -> bool: ...

    def tell(self, page: Page, now: datetime) -> str | None:
        """None when it was taken; else one line that says why not. now: wall-clock time. Raises nothing expected."""
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
        except httpx.HTTPError as error:
            return f"{self.url}: {type(error).__name__}: {error}"
        return None if answer.is_success else f"{self.url}: {answer.status_code} {answer.text[:200]}"


@dataclass(frozen=True)
class Webhook:
    """{"incident", "title", "text", "labels", "runbook", "starts_at", "ends_at"} as one signed POST."""

    post: SignedPost
    name: str = "webhook"
    resends: bool = False

    def tell(self, page: Page, now: datetime) -> str | None:  # noqa: ARG002 - the protocol's
        reply = self.post.send(document(page), f"{page.incident}/{'end' if page.ends_at else 'begin'}")
        return None if reply.reached == "taken" else reply.detail


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


def document(page: Page) -> bytes:
    return msgspec.json.encode(vars(page), order="sorted")
