"""Savepoints: consistent cuts of store, offsets and definitions, taken while an app runs, and restored anywhere.

Why a cut is right at every moment. Spark writes `offsets/N` before the epoch N begins and `commits/N` after it ended,
never changes a file of its logs, and deletes only what is a hundred epochs old. The store has epoch N with its offsets,
or it has not. So the copy of the store decides: it shows one moment, and says for each query the last epoch E. At that
moment `offsets/E` and all before it were written. The checkpoint's files are copied before, during and after the store,
so that nothing up to E is missed, and what goes beyond E is left out. Then

- the checkpoint is not behind: `offsets/E` is there, with the very offsets that the store has, or no savepoint is made;
- it is not ahead: Spark does not know of an epoch after E, and cuts the next one itself, from the offsets of E on;
- `commits/E` may be missing: then Spark calls with E again, and the engine skips what the store has.

A stream that comes, goes or is made again meanwhile changes the ids of the queries: then the cut is taken again.
"""

from penstock.history.savepoints.compare import Verdict, compare, refuse_changed
from penstock.history.savepoints.create import create
from penstock.history.savepoints.manifest import FOLDER, Savepoint, SavepointError
from penstock.history.savepoints.restore import check_whole, restore
from penstock.history.savepoints.rewind import refuse_ahead, rewind
from penstock.history.savepoints.shelf import drop, find, listed

__all__ = [
    "FOLDER", "Savepoint", "SavepointError", "Verdict", "check_whole", "compare", "create", "drop", "find", "listed",
    "refuse_ahead", "refuse_changed", "restore", "rewind",
]  # fmt: skip
