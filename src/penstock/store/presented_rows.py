"""All rows of a view as `Reader.query` shows them, wherever they are: in a table or in segments."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import polars as pl

from penstock.store.connection import Connection
from penstock.store.present import shown
from penstock.store.reader import Reader
from penstock.store.scan import Snapshot
from penstock.store.segment_scan import from_newest
from penstock.store.tables import quoted


def presented_rows(reader: Reader, view: str, order: Sequence[str] = ()) -> pl.DataFrame:
    """The rows of a view with all its columns, in the order of some of them; null comes first."""

    def rows() -> pl.DataFrame:
        with reader.moment_of() as connection:
            return presented_rows_at(connection, reader.segments_at, view, order)

    return from_newest(rows)


def presented_rows_at(connection: Connection, root: str, view: str, order: Sequence[str] = ()) -> pl.DataFrame:
    """The same at the moment of a connection. `root` is the folder of segments.

    Fails with `MissingSegment` if compaction has removed a file of that moment.
    """
    segments = _from_segments(connection, root, view)
    if segments is not None:
        return segments.sort(list(order), nulls_last=False) if order else segments
    by = f" ORDER BY {', '.join(map(quoted, order))}" if order else ""
    return connection.answer(f"SELECT * FROM {quoted(view)}{by}", [])


def _from_segments(connection: Connection, root: str, view: str) -> pl.DataFrame | None:
    with closing(Snapshot(connection, root)) as snapshot:
        scannable = snapshot.views.get(view)
        if scannable is None or not scannable.in_segments:
            return None
        table = snapshot.scan(scannable, scannable.schema.names, []).read_all()
    columns = [shown(pl.Series(name, table[name])) for name in table.column_names]
    return pl.DataFrame([one.cast(pl.Int64) if one.dtype == pl.Boolean else one for one in columns])
