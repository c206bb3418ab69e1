"""dcgm-exporter's Prometheus text to gpu: one wide row per GPU and time from one line per GPU and field.

Traps (formats.md A1, field.md 5): label names differ by release; blanks are numbers; MEMORY_TEMP 0 is a missing
sensor; energy is in mJ and frame buffer in MiB; MIG rows carry the UUID of their parent.

DCGM_FI_DEV_XID_ERRORS is not turned into events: it is a gauge that stays at the last Xid until the exporter restarts,
so it repeats one event for days, hides two equal ones, and never shows some codes. Xids come from the kernel log.
"""

import re

import polars as pl

from schemas.formats import payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable
from schemas.formats.gpu_samples import DCGM_FIELDS, gpu_decoded
from schemas.formats.prometheus_text import label, samples_of, time_of, with_labels

NAME = "dcgm-exporter text"
VERSIONS = "releases with UUID, uuid and gpu_uuid; Hostname and hostname; with and without pci_bus_id"
LEAVES = "DCGM_FI_PROF_*, violation counters, XID_ERRORS (a gauge that stays), single NVLinks, MIG instances (rejects)"
LOOKS = re.compile(r"^(# (HELP|TYPE) DCGM_\w+ |DCGM_\w+\{)", re.MULTILINE)


def looks_like(head: bytes, name: str) -> bool:  # noqa: ARG001  every format answers to the same question
    return LOOKS.search(payload.head_text(head)) is not None


def decode(data: bytes, surroundings: Surroundings) -> Decoded:
    """Rows of gpu, one per host, GPU and time; time is the line's own (ms since the epoch) or received_at.

    missing: gpu columns of which this text has no field. Rejects: lines that are no sample, samples of MIG instances
    (they do not fit a row per GPU) and repeated series one by line; blanks and readings out of range one per field
    with their count. Raises Unreadable when no line is a DCGM sample.
    """
    samples, rejects = _samples(payload.text(data, surroundings, NAME))
    if samples.is_empty() and not any(reject.rule == "gpu|mig" for reject in rejects):
        raise Unreadable(f"{NAME}: no DCGM sample with a gpu label in {len(rejects)} line(s)")
    samples = samples.with_columns(
        pl.col("node").fill_null(surroundings.node),
        time_of(pl.lit(surroundings.received_at)).alias("time"),
    )
    return gpu_decoded(samples, DCGM_FIELDS, rejects, place="line")


def _samples(text: str) -> tuple[pl.DataFrame, list[Reject]]:
    """Lines as metric, value, stamp (ms), node, gpu, uuid, place; and what was no sample of a whole GPU."""
    parsed = with_labels(
        samples_of(text),
        node=label("Hostname", "hostname"),
        gpu=label("gpu").cast(pl.Int64, strict=False),
        uuid=label("UUID", "uuid", "gpu_uuid"),
        instance=label("GPU_I_ID"),
        link=label("nvlink", "nvswitch"),
    )
    reason = (
        pl.when(pl.col("rule").is_not_null()).then(pl.col("rule"))
        .when(~pl.col("metric").str.starts_with("DCGM_")).then(pl.lit("metric|foreign"))
        .when(pl.col("instance").is_not_null()).then(pl.lit("gpu|mig"))
        .when(pl.col("gpu").is_null()).then(pl.lit("gpu|absent"))
    )  # fmt: skip
    judged = parsed.with_columns(reason.alias("rule"))
    # An exporter also tells of itself (go_*, process_*): no DCGM sample, and no fault either.
    bad = judged.filter(pl.col("rule").is_not_null() & (pl.col("rule") != "metric|foreign"))
    words = {
        "line|sample": "no Prometheus sample",
        "line|value": "value is no number",
        "gpu|mig": "sample of a MIG instance, not of the GPU",
        "gpu|absent": "no gpu label",
    }
    rejects = [
        Reject(rule=rule, reason=f"line {line}: {words[rule]}", place=line, raw=raw.encode())
        for rule, line, raw in bad.select("rule", "line", "text").iter_rows()
    ]
    # One link's or switch's counter is not the GPU's total, which has a field of its own.
    good = judged.filter(pl.col("rule").is_null() & pl.col("link").is_null())
    return good.select(pl.col("line").alias("place"), "metric", "number", "stamp", "node", "gpu", "uuid"), rejects
