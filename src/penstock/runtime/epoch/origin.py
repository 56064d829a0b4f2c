"""Where an epoch comes from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import polars as pl

from penstock.runtime.derived.base import Step
from penstock.store.figures import Intake


@dataclass(frozen=True)
class EpochOrigin:
    """Where an epoch comes from: a query (one checkpoint of Spark's), its number there, and its offsets."""

    query: str
    epoch: int
    offsets: str
    before: str | None = None  # the offsets of the epoch before it
    intake: Intake = field(default_factory=Intake)  # how much it takes of its log
    partitions: tuple[Collection[int], Collection[int]] | None = (
        None  # of the source, and those that are read to their end
    )
    retried: pl.DataFrame | None = field(default=None, compare=False)  # places of dead letters that come again
    from_files: bool = False  # the dead letters are files, which are read again
    positions: Mapping[str, range] | None = field(default=None, compare=False)  # of each file's rows
    decoded: bool = False  # the rows have the stream's columns already
    step: Step | None = field(default=None, compare=False)  # of a derived stream
    taken: int | None = None  # how much it takes, in the unit of its source's limits
