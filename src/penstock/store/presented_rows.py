"""All rows of a view as `Reader.query` shows them, wherever they are: in a table or in segments."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from penstock.store.present import shown
from penstock.store.reader import Reader
from penstock.store.scan import scanning
from penstock.store.segment_scan import from_newest
from penstock.store.tables import quoted


def presented_rows(reader: Reader, view: str, order: Sequence[str] = ()) -> pl.DataFrame:
    """The rows of a view with all its columns, in the order of some of them; null comes first."""
    segments = from_newest(lambda: _from_segments(reader, view))
    if segments is not None:
        return segments.sort(list(order), nulls_last=False) if order else segments
    by = f" ORDER BY {', '.join(map(quoted, order))}" if order else ""
    return reader.query(f"SELECT * FROM {quoted(view)}{by}")


def _from_segments(reader: Reader, view: str) -> pl.DataFrame | None:
    with scanning(reader) as snapshot:
        scannable = snapshot.views.get(view)
        if scannable is None or not scannable.in_segments:
            return None
        table = snapshot.scan(scannable, scannable.schema.names, []).read_all()
    columns = [shown(pl.Series(name, table[name])) for name in table.column_names]
    return pl.DataFrame([one.cast(pl.Int64) if one.dtype == pl.Boolean else one for one in columns])
