"""From settings to executors, one per kind of action. What is not used is not imported."""

from collections.abc import Callable, Mapping, Sequence
from typing import get_args

from pipelines.recovery.executors.contract import Executor
from pipelines.recovery.executors.log import LogExecutor
from pipelines.recovery.executors.ports import ReturnExecutor
from pipelines.recovery.executors.settings import Who, secret
from pipelines.settings import Settings, SettingsError
from schemas.action import ActionKind

WITHOUT_PORTS: tuple[Who, ...] = ("slurm", "kubernetes")  # what they return is a node


def executors_from(settings: Settings) -> Mapping[str, Executor]:
    """Raises SettingsError when an executor lacks what it needs."""
    makers: Mapping[Who, Callable[[Settings], Executor]] = {
        "log": lambda chosen: LogExecutor(chosen.store.actions),
        "slurm": _slurm, "webhook": _webhook, "kafka": _kafka, "redfish": _redfish,
        "kubernetes": _kubernetes,
    }  # fmt: skip
    by_kind = settings.executors.by_kind
    made = {who: makers[who](settings) for who in {"log", *by_kind.values()}}
    chosen = {kind: made[by_kind.get(kind, "log")] for kind in get_args(ActionKind)}
    if by_kind.get("return_to_service") in WITHOUT_PORTS:
        chosen["return_to_service"] = ReturnExecutor(chosen["return_to_service"], chosen["isolate_port"])
    return chosen


def _slurm(settings: Settings) -> Executor:
    from pipelines.recovery.executors import slurm  # noqa: PLC0415 - only where it is used

    _able(settings, "slurm", slurm.KINDS)
    chosen = settings.executors.slurm
    _in_time(settings, "slurm", 3 * chosen.timeout_seconds, "three answers of timeout_seconds")
    return slurm.SlurmExecutor(scontrol=chosen.scontrol, timeout_seconds=chosen.timeout_seconds)


def _webhook(settings: Settings) -> Executor:
    from pipelines.recovery.executors.webhook import WebhookExecutor  # noqa: PLC0415 - only where it is used
    from pipelines.signed_post import SignedPost, longest_seconds  # noqa: PLC0415 - only where it is used

    chosen = settings.executors.webhook
    if not chosen.url:
        raise SettingsError("executors.webhook.url: an address is needed, as actions go to the webhook")
    longest = longest_seconds(chosen.tries, chosen.timeout_seconds)
    _in_time(settings, "webhook", longest, "all tries of timeout_seconds and the pauses between them")
    key = _secret(lambda: secret(chosen.secret_file, "HOTSPARE_WEBHOOK_SECRET"))
    post = SignedPost(
        url=chosen.url, secret=key.encode(), timeout_seconds=chosen.timeout_seconds, tries=chosen.tries,
        ca_file=chosen.ca_file,
    )  # fmt: skip
    return WebhookExecutor(post)


def _kafka(settings: Settings) -> Executor:
    from pipelines.recovery.executors.kafka import KafkaExecutor  # noqa: PLC0415 - only where it is used

    # To reach a broker, to hear of the topic, to be told that it is taken, and to close.
    _in_time(settings, "kafka", 4 * settings.kafka.timeout_seconds, "four answers of kafka.timeout_seconds")
    return KafkaExecutor(settings.kafka, settings.executors.kafka.topic)


def _redfish(settings: Settings) -> Executor:
    from pipelines.recovery.executors import redfish  # noqa: PLC0415 - only where it is used

    _able(settings, "redfish", redfish.KINDS)
    chosen = settings.executors.redfish
    longest = chosen.deadline_seconds + chosen.timeout_seconds
    _in_time(settings, "redfish", longest, "deadline_seconds and the last answer of timeout_seconds")
    password = _secret(lambda: secret(chosen.password_file, "HOTSPARE_REDFISH_PASSWORD"))
    return redfish.RedfishExecutor(
        address=chosen.address, username=chosen.username, password=password, watts_limit=chosen.watts_limit,
        timeout_seconds=chosen.timeout_seconds, deadline_seconds=chosen.deadline_seconds, ca_file=chosen.ca_file,
    )  # fmt: skip


def _kubernetes(settings: Settings) -> Executor:
    from pipelines.recovery.executors import kubernetes, kubernetes_api  # noqa: PLC0415 - only where it is used

    _able(settings, "kubernetes", kubernetes.KINDS)
    chosen = settings.executors.kubernetes
    longest = chosen.deadline_seconds + 4 * chosen.timeout_seconds
    _in_time(settings, "kubernetes", longest, "deadline_seconds of a drain and four answers of timeout_seconds")
    try:
        with kubernetes_api.connected(chosen):
            pass  # a configuration that cannot be read shows now, not in the middle of an incident
    except ModuleNotFoundError:
        raise SettingsError(
            "executors.by_kind: kubernetes needs its client; pip install 'hotspare[kubernetes]' brings it"
        ) from None
    except kubernetes_api.ApiTrouble as trouble:
        raise SettingsError(f"executors.kubernetes: {trouble}") from None
    return kubernetes.KubernetesExecutor(settings=chosen)


def _able(settings: Settings, who: Who, kinds: Sequence[str]) -> None:
    unable = sorted(kind for kind, chosen in settings.executors.by_kind.items() if chosen == who and kind not in kinds)
    if unable:
        raise SettingsError(f"executors.by_kind.{unable[0]}: {who} does {', '.join(kinds)}")


def _in_time(settings: Settings, who: Who, longest_seconds: float, what: str) -> None:
    """An intent without an outcome counts as what a crash left: no executor may take that long."""
    unanswered = settings.recovery.unanswered_seconds
    if longest_seconds >= unanswered:
        raise SettingsError(
            f"executors.{who}: an action may take {longest_seconds:g} s ({what}), and recovery.unanswered_seconds"
            f" ({unanswered:g}) must be more"
        )


def _secret(read: Callable[[], str]) -> str:
    try:
        return read()
    except OSError as error:
        raise SettingsError(f"{error.filename}: {error.strerror}") from None
