"""A model learned again from the history, in the epochs that its commits recorded: it must be what the store has.

How a model turns out depends on where its epochs were cut, and that is written down: the offsets of an epoch say which
commits of the streams it has read.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa

from penstock.history.events.event_history import EventHistory
from penstock.learning.definition import Learning
from penstock.learning.played import LearningRun
from penstock.model.time import Instant
from penstock.runtime.derived.commit_offsets import FILES
from penstock.runtime.derived.learning.tasks import arrived
from penstock.runtime.errors import RunError
from penstock.store import Reader


def learned_again(learning: Learning, name: str, directory: Path) -> LearningRun:
    """What a model makes of the recorded epochs of the stream of this name, without Spark."""
    reader = Reader(directory)
    try:
        history, result, before = EventHistory(reader), LearningRun(learning), 0
        for source in learning.input.sources:
            if history.since(source.name):
                raise RunError(
                    f"the history has no longer all events of '{source.name}': the model cannot be learned again",
                    hint="keep='all' keeps them",
                )
        for through, now in _epochs(reader, name):
            good, dead = _read(history, learning, before, through)
            result.dead += [{**json.loads(row), "reason": reason} for row, reason in dead.iter_rows()]
            if good.height:
                result.epoch(good, now)
            before = through
        return result
    finally:
        reader.close()


def _epochs(reader: Reader, name: str) -> Iterator[tuple[int, Instant]]:
    """The epochs of a stream: up to which commit each has read, and when it was."""
    sql = 'SELECT read_through, now FROM __epochs WHERE stream = ?1 AND read_through IS NOT NULL ORDER BY "commit"'
    yield from reader.query(sql, [name]).iter_rows()


def _read(history: EventHistory, learning: Learning, after: int, through: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows of the model's flow in these commits, and those on which the steps before it fail."""
    pasts = [history.past(source, through, after) for source in learning.input.sources]
    packed = [pickle.dumps(past) for past in pasts if past.files]
    batch = pa.RecordBatch.from_pydict({"kind": [FILES] * len(packed), "data": pa.array(packed, pa.binary())})
    frames = list(arrived(learning, [batch]))
    good, dead = [pair[0] for pair in frames], [pair[1] for pair in frames]
    return pl.concat(good) if good else pl.DataFrame(), pl.concat(dead) if dead else pl.DataFrame()
