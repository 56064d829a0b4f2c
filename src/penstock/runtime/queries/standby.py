"""How a run gets hold of what it writes to: the store, at once or as a standby, and Spark's checkpoints that fit it."""

from __future__ import annotations

import json
from pathlib import Path

from penstock.history.savepoints import check_whole
from penstock.runtime.errors import RunError
from penstock.runtime.spark.checkpoints import repair
from penstock.store import Keep, Reader, SqlStore, Standby, open_store
from penstock.store.checkpoints import Place


def taken(
    directory: Path, keep: Keep, standby: bool | Standby = False, url: str | None = None, app: str | None = None
) -> SqlStore:
    """The store of a directory, for this process alone. A standby waits for it; others are refused if it is in use.

    `url` names one in PostgreSQL, whose schema has the name of the app unless it says another one.
    """
    check_whole(directory)
    store = open_store(directory, keep, url, app)
    store.lock(Standby() if standby is True else standby or None)
    try:
        check_whole(directory)  # the process before may have begun to restore a savepoint
    except BaseException:
        store.close()
        raise
    return store


def mended(stream: str, checkpoint: Place, store: Reader) -> None:
    """Leaves a checkpoint with which Spark goes on from the store's last commit; refuses one that it cannot."""
    if checkpoint.local is not None:
        repair(stream, checkpoint.local, store)
    if not (checkpoint / "metadata").exists():
        return
    progress = store.progress(json.loads((checkpoint / "metadata").read_text())["id"])
    if progress is None:
        return
    try:
        offsets = offsets_of(checkpoint, progress.epoch)
    except FileNotFoundError:
        return  # the engine says that the two are apart, when Spark calls for another epoch
    if offsets != progress.offsets:
        raise other_offsets(stream, progress.epoch, f"{progress.offsets} and {offsets}")


def offsets_of(checkpoint: Place, epoch: int) -> str:
    """Up to where an epoch reads, below the version and what else Spark notes of it."""
    return "\n".join((checkpoint / "offsets" / str(epoch)).read_text().splitlines()[2:])


def other_offsets(stream: str, epoch: int, detail: str) -> RunError:
    return RunError(
        f"epoch {epoch} of the stream '{stream}' was committed with other offsets",
        detail=detail,
        hint="the store and the checkpoint do not belong together: restore both, or delete both",
    )
