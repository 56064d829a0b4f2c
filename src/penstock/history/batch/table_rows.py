"""The rows of a view's table, whether they lie in the store's tables or in segments."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import polars as pl

from penstock.state.mapping import mapped
from penstock.store import SqliteStore
from penstock.store.connection import Connection
from penstock.store.dialect import select
from penstock.store.segment_tables import table_changes
from penstock.store.segments import FOLDER as SEGMENTS
from penstock.store.segments import segments_of, shardings
from penstock.store.sharded_view import ShardedView
from penstock.store.tables import Layout


def table_rows(connection: Connection, directory: Path, layout: Layout, columns: Sequence[str]) -> pl.DataFrame:
    """These columns of all rows, as of the connection's moment. Files must be pinned.

    Rows in segments go through a table of a store of their own, so that they look like those of other tables.
    """
    question = f"SELECT {select(columns)} FROM {layout.table}"
    sharding = shardings(connection).get(layout.name)
    if sharding is None:
        return connection.answer(question, [])
    root, segments = str(directory / SEGMENTS), segments_of(connection, layout.name)
    for segment in segments:
        mapped(root, segment).check()
    view = ShardedView(layout.name, root, sharding.shards, segments, sharding.expired, plan=layout.plan)
    folders = tempfile.TemporaryDirectory(prefix="penstock-segments-")
    with folders as folder, closing(SqliteStore.open(folder)) as scratch:
        scratch.lock()
        scratch.prepare({layout.name: layout.plan})
        for change in table_changes(view):
            scratch.load(layout.name, change)
        return scratch.query(question)
