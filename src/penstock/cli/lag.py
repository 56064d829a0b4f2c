"""How far streams are behind their logs, and what their epochs take: as the last commits have noted it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from penstock.model.time import SECOND
from penstock.store import Reader
from penstock.store.versions import TABLES_NOW

#: The number of commits over which the trend of a stream's lag is measured.
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
    sql = (
        'SELECT stream, now, rows, taken, unit, "limit", behind FROM __commits '
        f"WHERE kind = 'epoch' AND stream IS NOT NULL ORDER BY number DESC LIMIT {_COMMITS}"
    )
    epochs = store.query(sql).partition_by("stream", as_dict=True)
    return {stream: _lag(rows.to_dicts()) for (stream,), rows in sorted(epochs.items())}


def read_tables(store: Reader) -> dict[str, tuple[int, str | None]]:
    """The version of each table that epochs have now, and why it could not be read again, where it could not."""
    versions = {table: (version, reason) for table, version, reason in store.query(TABLES_NOW).iter_rows()}
    return dict(sorted(versions.items()))


def _lag(epochs: list[dict[str, Any]]) -> Lag:
    """From the last epochs of a stream, the newest first."""
    last = epochs[0]
    unit = last["unit"] or "events"
    taken = last["rows"] if unit == "events" else last["taken"]
    known = [(epoch["now"], epoch["behind"]) for epoch in epochs if epoch["behind"] is not None]
    falls = None
    if len(known) > 1 and known[0][0] > known[-1][0]:
        falls = (known[-1][1] - known[0][1]) * SECOND / (known[0][0] - known[-1][0])
    return Lag(taken or 0, unit, last["limit"], last["behind"], falls)
