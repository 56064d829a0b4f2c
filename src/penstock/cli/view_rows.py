"""Questions of demos in SQLite's SQL over small views, wherever the rows of those are."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing

import polars as pl

from penstock.store import Reader
from penstock.store.presented_rows import presented_rows
from penstock.store.reader import InSegments
from penstock.store.tables import quoted


def ask_views(reader: Reader, sql: str, parameters: Sequence[object] = ()) -> pl.DataFrame:
    """The answer to a question. Rows that are in segments are copied into a database in memory first."""
    try:
        return reader.query(sql, parameters)
    except InSegments:
        views = [name for name in reader.views() if re.search(rf"\b{re.escape(name)}\b", sql)]
        with closing(sqlite3.connect(":memory:")) as database:
            for name in views:
                _copy(database, name, presented_rows(reader, name))
            cursor = database.execute(sql, list(parameters))
            names = [column[0] for column in cursor.description]
            return pl.DataFrame(cursor.fetchall(), schema=names, orient="row", infer_schema_length=None)


def _copy(database: sqlite3.Connection, name: str, rows: pl.DataFrame) -> None:
    database.execute(f"CREATE TABLE {quoted(name)} ({', '.join(map(quoted, rows.columns))})")
    marks = ", ".join("?" * rows.width)
    database.executemany(f"INSERT INTO {quoted(name)} VALUES ({marks})", rows.iter_rows())
