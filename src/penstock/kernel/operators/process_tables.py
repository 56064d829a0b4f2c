"""Tables beside a processor: versions that its code looks things up in."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from penstock.kernel.tables import frame_of, key_frame, rows_near
from penstock.kernel.values import model_rows
from penstock.model.side_tables import Lookup, SideTable
from penstock.model.table import Snapshot, Table
from penstock.model.table_rows import Index
from penstock.model.time import Instant
from penstock.process_state import RecentlyUsed, process

#: How many keys of a large table stay in memory.
_KEYS: Final = 10_000
#: Of how many tables a version stays in memory.
_TABLES: Final = 64


def side_table(table: Table, snapshot: Snapshot) -> SideTable:
    """A version of a table; this process keeps the one of each table that was last asked for."""
    kept = process.of(SideTables)
    known = kept.get(table)
    if known is None or known[0] != snapshot:
        lookup: Lookup = LargeIndex(table, snapshot) if snapshot.large else _index(table, snapshot)
        known = snapshot, SideTable(table, lookup)
        kept.put(table, known)
    return known[1]


class SideTables(RecentlyUsed[Table, tuple[Snapshot, SideTable]]):
    """Of each table the version that the code of this process was last given."""

    def __init__(self) -> None:
        super().__init__(_TABLES)


def _index(table: Table, snapshot: Snapshot) -> Index:
    return Index(table, model_rows(frame_of(table, snapshot)))


class LargeIndex:
    """A version that is not read into memory: a key is looked up in its files."""

    def __init__(self, table: Table, snapshot: Snapshot) -> None:
        self._table, self._snapshot = table, snapshot
        self._near = lru_cache(maxsize=_KEYS)(self._read)

    def _read(self, key: tuple[object, ...]) -> Index:
        return Index(self._table, model_rows(rows_near(self._table, self._snapshot, key_frame(self._table, key))))

    def row(self, key: tuple[object, ...], at: Instant) -> dict[str, Any] | None:
        return None if None in key else self._near(key).row(key, at)

    def rows(self) -> Iterator[dict[str, Any]]:
        return _index(self._table, self._snapshot).rows()
