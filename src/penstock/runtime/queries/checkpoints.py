"""Spark's checkpoints when a run starts: whether they fit the store, and what a process that died has left."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from penstock.dataflow.operators import operator_of
from penstock.model.stream import Stream
from penstock.runtime.errors import RunError
from penstock.runtime.queries.standby import mended
from penstock.sources import Source
from penstock.store import SqlStore
from penstock.store.checkpoints import FOLDER, Place

#: How many attempts to remove a folder into which Spark may still write.
_ATTEMPTS: Final = 20


def is_replayable(stream: Stream) -> bool:
    """Whether a stream can be read again from an offset."""
    return not isinstance(stream.log, Source) or stream.log.replayable


def prepare_checkpoints(checkpoints: Place, streams: Mapping[str, Stream], store: SqlStore) -> None:
    """Removes what is left of dropped streams, and rejects a store that would count events again.

    A source that cannot be read again has no use for its old offsets: its query starts from the beginning.
    """
    for name in store.leftovers():
        (checkpoints / name).remove()
        store.forgotten(name)
    reread = _reread(checkpoints, store)
    for name, stream in streams.items():
        checkpoint = checkpoints / name
        if operator_of(stream) is not None:
            if checkpoint.exists():
                raise RunError(
                    f"the state of '{name}' was written by an earlier version, which kept it in Spark's own operators",
                    hint=f"give the stream another name: it is then rebuilt from the history of its inputs. Rows of "
                    f"'{name}' stay in the history",
                )
            continue
        if not is_replayable(stream):
            checkpoint.remove()
            continue
        if name not in reread and f"{name}.events" in store.counters() and not checkpoint.exists():
            raise RunError(
                f"the checkpoint of the stream '{name}' is gone: reading it again would count its events twice",
                hint=f"restore {checkpoint}, or delete {store.directory} to start from the beginning",
            )
        mended(name, checkpoint, store)


def query_of(checkpoint: Place) -> str | None:
    """The query that a checkpoint belongs to; None where there is no checkpoint."""
    try:
        return str(json.loads((checkpoint / "metadata").read_text())["id"])
    except FileNotFoundError:
        return None


def _reread(checkpoints: Place, store: SqlStore) -> set[str]:
    """The streams whose sources are read from their beginning, since they are others now.

    That is so until a query has committed an epoch of it; the one before is forgotten in the store.
    """
    waiting = set()
    for name in store.to_reread():
        query = query_of(checkpoints / name)
        if query is not None and store.progress(query) is not None:
            store.records.note_position(name)
        else:
            (checkpoints / name).remove()
            waiting.add(name)
    return waiting


def remove_empty(directory: Path) -> None:
    """Removes the folder that Spark has created for its logs in a directory that was moved away.

    A thread of Spark's may still be making it, so that an attempt can leave an empty folder.
    """
    for _ in range(_ATTEMPTS):
        try:
            names = {file.name for file in directory.iterdir()}
        except FileNotFoundError:
            return
        if names - {FOLDER}:
            return
        shutil.rmtree(directory, ignore_errors=True)
