"""How far streams are behind their logs, and what their epochs take: as the last commits have noted it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from penstock.model.time import SECOND, Instant
from penstock.store import Reader

#: Over so many commits of an app it is seen whether a stream comes nearer to the end of its log.
_COMMITS: Final = 20


@dataclass(frozen=True)
class Lag:
    """A stream's last epoch: how much it took, of how much at most, and how many events its log held beyond it.

    `falls` is by how many a second that number falls, over the last commits; below zero it rises.
    """

    taken: int
    unit: str
    limit: int | None
    behind: int | None
    falls: float | None

    @property
    def seconds(self) -> float | None:
        """How long until all is read, if it goes on so; None if it does not come nearer, or nobody knows."""
        if self.behind == 0:
            return 0.0
        return self.behind / self.falls if self.behind is not None and self.falls and self.falls > 0 else None


def read_lags(store: Reader) -> dict[str, Lag]:
    """The lag of each stream that the last commits read."""
    sql = f"SELECT now, timings FROM __commits WHERE kind = 'epoch' ORDER BY number DESC LIMIT {_COMMITS}"
    noted: dict[str, list[tuple[Instant, dict[str, int]]]] = {}
    for now, timings in store.query(sql).iter_rows():
        note = json.loads(timings)
        if "stream" in note:
            noted.setdefault(note["stream"], []).append((now, note))
    return {stream: _lag(notes) for stream, notes in sorted(noted.items())}


def read_tables(store: Reader) -> dict[str, tuple[int, str | None]]:
    """The version of each table that the last commits had, and why it could not be read again, where it could not."""
    sql = f"SELECT timings FROM __commits WHERE kind = 'epoch' ORDER BY number DESC LIMIT {_COMMITS}"
    found: dict[str, tuple[int, str | None]] = {}
    for (timings,) in store.query(sql).iter_rows():
        note = json.loads(timings)
        for table, version in note.get("tables", {}).items():
            found.setdefault(table, (version, note.get("stale", {}).get(table)))
    return dict(sorted(found.items()))


def _lag(notes: list[tuple[Instant, dict[str, int]]]) -> Lag:
    """From the notes of a stream, the newest first."""
    last = notes[0][1]
    unit = str(last.get("unit", "events"))
    taken = last["rows"] if unit == "events" else last.get("taken", 0)
    known = [(now, note["behind"]) for now, note in notes if "behind" in note]
    falls = None
    if len(known) > 1 and known[0][0] > known[-1][0]:
        falls = (known[-1][1] - known[0][1]) * SECOND / (known[0][0] - known[-1][0])
    return Lag(taken, unit, last.get("limit"), last.get("behind"), falls)
