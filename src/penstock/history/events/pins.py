"""Pins: who reads the history now, and from which commit on. Replaced files that a pin may need are not removed.

A pin is a small file in the app's directory, so that any process which reads there can set one. It goes when the
reading ends; one that a killed process has left expires.
"""

from __future__ import annotations

import json
import logging
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from penstock.model.time import Duration, Instant, duration
from penstock.store.reader import Reader

_log = logging.getLogger("penstock.history")
_FOLDER: Final = "pins"
#: No reading takes longer.
EXPIRES: Final = duration("1 day")
#: The commit from which on files are needed where nobody reads.
NONE: Final = 1 << 62


@contextmanager
def pinned(reader: Reader, what: str, expires: Duration = EXPIRES) -> Iterator[None]:
    """In here all files stay that are listed now, also when they are replaced.

    Where the app's directory cannot be written the reading goes on without: files stay for their grace.
    """
    last = reader.last()
    note = {
        "what": what, "pid": os.getpid(), "commit": 0 if last is None else last.number,
        "expires": time.time_ns() // 1000 + expires,
    }  # fmt: skip
    path = Path(reader.directory) / _FOLDER / f"{uuid.uuid4().hex}.json"
    try:
        path.parent.mkdir(exist_ok=True)
        hidden = path.with_suffix(".new")
        hidden.write_text(json.dumps(note), encoding="utf-8")
        hidden.rename(path)
    except OSError as error:
        _log.warning("the files of the history cannot be pinned for the %s: %s", what, error)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def needed_from(directory: Path, now: Instant) -> int:
    """The oldest commit that a pin names: files that were replaced at it or later are needed. Removes expired pins."""
    oldest = NONE
    for path in (Path(directory) / _FOLDER).glob("*.json"):
        try:
            note = json.loads(path.read_text(encoding="utf-8"))
            if note["expires"] < now:
                path.unlink(missing_ok=True)
            else:
                oldest = min(oldest, int(note["commit"]))
        except FileNotFoundError:
            continue  # the reading has just ended
        except (ValueError, KeyError, TypeError):
            _log.warning("'%s' is not a pin", path)
    return oldest
