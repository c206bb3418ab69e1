"""Sending simulated or recorded windows to Kafka, as a cluster's own collectors would: one message per source and time."""

from collections.abc import Callable, Iterable

import polars as pl
from kafka import KafkaProducer
from kafka.errors import TopicAlreadyExistsError

from pipelines.settings import KafkaSettings
from pipelines.sources.kafka_client import admin, producer
from replay.simulate import Window
from schemas.formats import wire
from schemas.tables import TABLES, Table
from schemas.topology import Topology, node_of

CLUSTER = "cluster"  # key of what belongs to no pod: a core switch, a job


def create_topics(settings: KafkaSettings) -> None:
    """One topic per table; those that are there already are left as they are."""
    wanted = {f"{settings.topic_prefix}{table.name}": {"num_partitions": settings.partitions} for table in TABLES}
    with admin(settings) as client:
        existing = set(client.list_topics())
        missing = {topic: options for topic, options in wanted.items() if topic not in existing}
        if missing:
            try:
                client.create_topics(missing)
            except TopicAlreadyExistsError:
                pass  # another producer made it between the two calls


def send(
    windows: Iterable[Window], topology: Topology, settings: KafkaSettings, sent: Callable[[Window, int], None]
) -> int:
    """Send every row of every window; returns how many messages. Raises SourceError when the broker refuses."""
    pods = _pods(topology)
    total = 0
    create_topics(settings)
    with producer(settings) as client:
        for window in windows:
            count = sum(_send_table(client, table, window.tables.get(table.name), pods, settings) for table in TABLES)
            client.flush()
            total += count
            sent(window, count)
    return total


def _send_table(
    client: KafkaProducer, table: Table, rows: pl.DataFrame | None, pods: dict[str, str], settings: KafkaSettings
) -> int:
    if rows is None or rows.is_empty():
        return 0
    topic = f"{settings.topic_prefix}{table.name}"
    messages = 0
    keys = rows[table.source].replace_strict(pods, default=None, return_dtype=pl.String)
    for (pod,), part in rows.with_columns(_pod=keys.fill_null(CLUSTER)).group_by("_pod", maintain_order=True):
        for message in wire.encode_json(part.drop("_pod"), table, (table.time, table.source)):
            client.send(topic, key=str(pod).encode(), value=message)
            messages += 1
    return messages


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
