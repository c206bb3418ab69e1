"""From settings to executors, one per kind of action. What is not used is not imported."""

from collections.abc import Callable, Mapping, Sequence
from typing import get_args

from pipelines.recovery.executors.contract import Executor
from pipelines.recovery.executors.log import LogExecutor
from pipelines.recovery.executors.settings import Who, secret
from pipelines.settings import Settings, SettingsError
from schemas.action import ActionKind


def executors_from(settings: Settings) -> Mapping[str, Executor]:
    """Raises SettingsError when an executor lacks what it needs."""
    makers: Mapping[Who, Callable[[Settings], Executor]] = {
        "log": lambda chosen: LogExecutor(chosen.store.actions),
        "slurm": _slurm, "webhook": _webhook, "kafka": _kafka, "redfish": _redfish,
        "kubernetes": _kubernetes,
    }  # fmt: skip
    by_kind = settings.executors.by_kind
    made = {who: makers[who](settings) for who in {"log", *by_kind.values()}}
    return {kind: made[by_kind.get(kind, "log")] for kind in get_args(ActionKind)}


def _slurm(settings: Settings) -> Executor:
    from pipelines.recovery.executors import slurm  # noqa: PLC0415 - only where it is used

    _able(settings, "slurm", slurm.KINDS)
    chosen = settings.executors.slurm
    return slurm.SlurmExecutor(scontrol=chosen.scontrol, timeout_seconds=chosen.timeout_seconds)


def _webhook(settings: Settings) -> Executor:
    from pipelines.recovery.executors.webhook import WebhookExecutor  # noqa: PLC0415 - only where it is used
    from pipelines.signed_post import SignedPost  # noqa: PLC0415 - only where it is used

    chosen = settings.executors.webhook
    if not chosen.url:
        raise SettingsError("executors.webhook.url: an address is needed, as actions go to the webhook")
    key = _secret(lambda: secret(chosen.secret_file, "HOTSPARE_WEBHOOK_SECRET"))
    post = SignedPost(
        url=chosen.url, secret=key.encode(), timeout_seconds=chosen.timeout_seconds, tries=chosen.tries,
        ca_file=chosen.ca_file,
    )  # fmt: skip
    return WebhookExecutor(post)


def _kafka(settings: Settings) -> Executor:
    from pipelines.recovery.executors.kafka import KafkaExecutor  # noqa: PLC0415 - only where it is used

    return KafkaExecutor(settings.kafka, settings.executors.kafka.topic)


def _redfish(settings: Settings) -> Executor:
    from pipelines.recovery.executors import redfish  # noqa: PLC0415 - only where it is used

    _able(settings, "redfish", redfish.KINDS)
    chosen = settings.executors.redfish
    password = _secret(lambda: secret(chosen.password_file, "HOTSPARE_REDFISH_PASSWORD"))
    return redfish.RedfishExecutor(
        address=chosen.address, username=chosen.username, password=password, watts_limit=chosen.watts_limit,
        timeout_seconds=chosen.timeout_seconds, ca_file=chosen.ca_file,
    )  # fmt: skip


def _kubernetes(settings: Settings) -> Executor:
    from pipelines.recovery.executors import kubernetes, kubernetes_api  # noqa: PLC0415 - only where it is used

    _able(settings, "kubernetes", kubernetes.KINDS)
    chosen = settings.executors.kubernetes
    longest = chosen.deadline_seconds + 4 * chosen.timeout_seconds
    if longest >= settings.recovery.unanswered_seconds:
        raise SettingsError(
            f"executors.kubernetes.deadline_seconds: a drain may take {longest:g} s with four answers of "
            f"timeout_seconds, and recovery.unanswered_seconds ({settings.recovery.unanswered_seconds:g}) must be more"
        )
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


def _secret(read: Callable[[], str]) -> str:
    try:
        return read()
    except OSError as error:
        raise SettingsError(f"{error.filename}: {error.strerror}") from None
