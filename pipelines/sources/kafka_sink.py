"""Sending simulated windows to Kafka, as a cluster's own collectors would: one message per source and time."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import polars as pl
from kafka import KafkaProducer
from kafka.errors import TopicAlreadyExistsError

from pipelines.settings import KafkaSettings
from pipelines.sources.kafka_client import REQUEST_BYTES, admin, producer
from replay.simulate import Window
from schemas.formats import wire
from schemas.tables import TABLES, Table
from schemas.topology import Topology, node_of

CLUSTER = "cluster"  # key of what belongs to no pod: a core switch, a job


def create_topics(settings: KafkaSettings) -> None:
    """One topic per table; those that are there already are left as they are."""
    options = {"num_partitions": settings.partitions, "configs": {"max.message.bytes": str(REQUEST_BYTES)}}
    wanted = {f"{settings.topic_prefix}{table.name}": options for table in TABLES}
    with admin(settings) as client:
        existing = set(client.list_topics())
        missing = {topic: how for topic, how in wanted.items() if topic not in existing}
        if missing:
            with suppress(TopicAlreadyExistsError):  # another producer made it between the two calls
                client.create_topics(missing, wait_for_metadata=True)


def send(
    windows: Iterable[Window], topology: Topology, settings: KafkaSettings, sent: Callable[[Window, int], None]
) -> int:
    """Send every row of every window; returns how many messages. Raises SourceError when the broker refuses."""
    pods = _pods(topology)
    total = 0
    create_topics(settings)
    with producer(settings) as client:
        for window in windows:
            futures = [
                future for table in TABLES
                for future in _send_table(client, table, window.tables.get(table.name), pods, settings)
            ]  # fmt: skip
            client.flush(settings.timeout_seconds)
            for future in futures:
                future.get(settings.timeout_seconds)  # a flush is silent about what the broker refused
            total += len(futures)
            sent(window, len(futures))
    return total


def _send_table(
    client: KafkaProducer, table: Table, rows: pl.DataFrame | None, pods: dict[str, str], settings: KafkaSettings
) -> Iterator[Any]:
    if rows is None or rows.is_empty():
        return
    topic = f"{settings.topic_prefix}{table.name}"
    # In order of time whatever the pod: two pods may share a partition, and a partition is read in order of time.
    ordered = rows.sort(table.time, maintain_order=True)
    messages = wire.encode_json(ordered, table, (table.time, table.source))
    sources = ordered.unique([table.time, table.source], keep="first", maintain_order=True)[table.source]
    for source, message in zip(sources, messages, strict=True):
        yield client.send(topic, key=pods.get(source, CLUSTER).encode(), value=message)


def _pods(topology: Topology) -> dict[str, str]:
    """Source id -> pod: of a node, its HCAs, its PDUs and CDU; a switch belongs to the pod of the nodes below it."""
    found: dict[str, str] = {}
    for row in topology.nodes.iter_rows(named=True):
        pod = row["pod"] or CLUSTER
        found |= {str(row[column]): pod for column in ("node", "pdu", "pdu_b", "cdu") if row[column] is not None}
    for device in topology.links_by_device:
        owner = node_of(device) if "/" in device else next(iter(topology.nodes_under("switch", device)), "")
        found[device] = found.get(owner, CLUSTER)
    return found
