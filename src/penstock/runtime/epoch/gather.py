"""Combines what the tasks of one epoch have sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import polars as pl

from penstock.history.events.writer import Keeping
from penstock.kernel.expressions import dtype
from penstock.kernel.plan import ORDINAL, POSITION
from penstock.kernel.reduce import Reduced
from penstock.kernel.share import Batch, Sharing
from penstock.model.expressions import bind
from penstock.model.stream import Stream
from penstock.model.watermarks import Observation
from penstock.runtime.epoch.job import Job
from penstock.runtime.epoch.wire import Record, read
from penstock.state.spool import SpooledDeltas
from penstock.store.arrivals import Ages
from penstock.store.file import File

if TYPE_CHECKING:
    from penstock.runtime.epoch.origin import EpochOrigin


@dataclass
class Epoch:
    """The result of one feed.

    Deltas by batch with the sharing that they were reduced by, refused rows by kind, rows that the merge may find late,
    a sample if one was asked for, the rows of flows without state, rows that come to operators, and the files of the
    history that its tasks wrote.
    """

    rows: int = 0
    observed: Observation = field(default_factory=Observation)
    batches: list[Batch] = field(default_factory=list)
    refused: dict[str, list[pl.DataFrame]] = field(default_factory=dict)
    suspects: list[pl.DataFrame] = field(default_factory=list)
    sample: pl.DataFrame | None = None
    shown: dict[int, list[pl.DataFrame]] = field(default_factory=dict)
    entering: dict[int, list[pl.DataFrame]] = field(default_factory=dict)
    files: list[File] = field(default_factory=list)
    sharing: Sharing | None = None
    spooled: dict[int, list[SpooledDeltas]] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)  # of user code
    ages: Ages = field(default_factory=Ages)  # of the rows whose arrival is known


def gathered(records: Iterable[Record]) -> Epoch:
    """Combines the records of an epoch's tasks."""
    output = read(records)
    shared, own = output.shared_deltas, output.deltas
    count = max((len(frames) for frames in (*shared.values(), *own.values())), default=0)
    return Epoch(
        output.rows,
        output.observed,
        [
            Batch([shared[n][i] for n in sorted(shared)], {n: Reduced(frames[i]) for n, frames in own.items()}, {})
            for i in range(count)
        ],
        output.rejected,
        output.suspects,
        output.sample,
        output.flow_rows,
        output.entering,
        output.files,
        spooled=output.spooled,
        counters=output.counters,
        ages=output.ages,
    )


def unpacked_ids(records: Iterable[Record], stream: Stream) -> pl.DataFrame:
    """The ids of an epoch with their rows' times and places."""
    assert stream.id is not None
    kind = dtype(bind(stream.id, stream.schema).type or "string")
    nothing = pl.DataFrame(schema={"__id": kind, "__at": pl.Int64, "__partition": pl.Int32, "__offset": pl.Int64})
    return pl.concat([nothing, *read(records).ids])


def refused(parts: Iterable[Epoch]) -> dict[str, pl.DataFrame]:
    """The rows that an epoch refused, by kind, from all its feeds."""
    by_kind: dict[str, list[pl.DataFrame]] = {}
    for part in parts:
        for kind, frames in part.refused.items():
            by_kind.setdefault(kind, []).extend(frames)
    return {kind: pl.concat(frames) for kind, frames in by_kind.items() if frames}


def kept_files(keeping: Keeping, source: EpochOrigin, epoch: Epoch, refused: Mapping[str, pl.DataFrame]) -> list[File]:
    """The history's files of an epoch: what its tasks wrote, and its dead letters, written here."""
    files = [*epoch.files]
    if "dead" in refused:
        file = keeping.write_dead(refused["dead"])
        files += [file] if file is not None else []
    return [replace(file, query=source.query, epoch=source.epoch) for file in files]


def entering(jobs: Mapping[str, Job], parts: Mapping[str, Epoch]) -> dict[str, list[pl.DataFrame]]:
    """The rows that come to operators, by the name of the input."""
    by_input: dict[str, list[pl.DataFrame]] = {}
    for feed, part in parts.items():
        for number, frames in part.entering.items():
            by_input.setdefault(jobs[feed].inputs[number].name, []).extend(frames)
    return by_input


def shown(jobs: Mapping[str, Job], parts: Mapping[str, Epoch]) -> dict[str, pl.DataFrame]:
    """The rows of flows without state, from all feeds, in the order of the log."""
    by_flow: dict[str, list[pl.DataFrame]] = {}
    for feed, part in parts.items():
        for number, frames in part.shown.items():
            by_flow.setdefault(jobs[feed].outputs[number].name, []).extend(frames)
    return {name: _in_order(pl.concat(frames)) for name, frames in by_flow.items()}


def _in_order(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows in the order of the log; those that were made of one row, in the order in which they were made."""
    if ORDINAL not in rows.columns:
        return rows.sort(POSITION)
    return rows.sort(*POSITION, ORDINAL).drop(ORDINAL)
