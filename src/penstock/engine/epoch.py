"""What the tasks of one epoch sent, put together."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from penstock.engine.job import unpack
from penstock.kernel.expressions import dtype
from penstock.kernel.reduce import Reduced
from penstock.kernel.share import Batch
from penstock.model.expressions import bind
from penstock.model.stream import Stream
from penstock.model.watermarks import Observation, Seen


@dataclass
class Epoch:
    """Deltas by batch, refused rows by kind, rows that the merge may find late, and a sample if one was asked for."""

    rows: int = 0
    observed: Observation = field(default_factory=Observation)
    batches: list[Batch] = field(default_factory=list)
    refused: dict[str, list[pl.DataFrame]] = field(default_factory=dict)
    suspects: list[pl.DataFrame] = field(default_factory=list)
    sample: pl.DataFrame | None = None


def gathered(records: list[dict[str, Any]]) -> Epoch:
    """The tasks' records, put together."""
    epoch = Epoch()
    bases: dict[int, list[pl.DataFrame]] = {}
    own: dict[int, list[pl.DataFrame]] = {}
    for record in records:
        kind, number, data = record["kind"], record["number"], record["data"]
        if kind == "observed":
            epoch.rows += number
            seen = json.loads(data)
            partitions = {int(partition): Seen(*shown) for partition, shown in seen["partitions"].items()}
            lateness = {int(bucket): count for bucket, count in seen["lateness"].items()}
            epoch.observed = epoch.observed.merge(Observation(partitions, lateness))
        elif kind == "base":
            bases.setdefault(number, []).append(unpack(data))
        elif kind == "own":
            own.setdefault(number, []).append(unpack(data))
        elif kind == "suspect":
            epoch.suspects.append(unpack(data))
        elif kind == "sample":
            epoch.sample = unpack(data) if epoch.sample is None else epoch.sample
        else:
            epoch.refused.setdefault(kind, []).append(unpack(data))
    count = max((len(frames) for frames in (*bases.values(), *own.values())), default=0)
    for i in range(count):
        epoch.batches.append(
            Batch([bases[n][i] for n in sorted(bases)], {n: Reduced(frames[i]) for n, frames in own.items()}, {})
        )
    return epoch


def unpacked_ids(records: list[dict[str, Any]], stream: Stream) -> pl.DataFrame:
    """The ids of an epoch with their rows' times and places."""
    assert stream.id is not None
    kind = dtype(bind(stream.id, stream.schema).type or "string")
    nothing = pl.DataFrame(schema={"__id": kind, "__at": pl.Int64, "__partition": pl.Int32, "__offset": pl.Int64})
    return pl.concat([nothing, *(unpack(record["data"]) for record in records)])
