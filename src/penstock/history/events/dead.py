"""Dead letters: rows that a stream refused, as text with the reason. They wait here to be fed in again after a fix."""

from __future__ import annotations

from typing import Final

import polars as pl

from penstock.errors import DefinitionError, unknown
from penstock.history.events.columns import dead_schema
from penstock.history.events.event_history import EventHistory
from penstock.history.events.read import read_files
from penstock.history.events.texts import without_erased_texts
from penstock.kernel.elements import compiled
from penstock.model.types import Schema

#: What a condition on dead letters may name.
COLUMNS: Final = Schema.parse("commit bigint, partition int, offset bigint, at timestamp, reason string, row string")


def dead_letters(history: EventHistory, stream: str, where: str | None = None) -> pl.DataFrame:
    """The rows that a stream itself refused and that were not fed in again, in the order in which they came.

    What only a view could not compute is no dead letter of the stream: it is in the history. Correct the view.
    """
    listing = history.store.listing()
    if stream not in listing.kept:
        raise unknown("stream of the history", stream, listing.kept)
    rows = read_files(history.place, listing.of(stream, "dead"), dead_schema())
    tombstones = [tombstone for tombstone in listing.tombstones if tombstone.stream == stream]
    rows = without_erased_texts(rows, tombstones, Schema.parse(listing.kept[stream].schema))
    rows = rows.filter(pl.col("view").is_null()).select(
        pl.col("__commit").alias("commit"),
        pl.col("__partition").alias("partition"),
        pl.col("__offset").alias("offset"),
        pl.col("at").cast(pl.Datetime("us", "UTC")),
        "reason", "row", "raw", "rest", "extent",
    )  # fmt: skip
    done = history.store.query('SELECT "commit", partition, "offset" FROM __retried WHERE stream = ?1', [stream])
    if done.height:
        done = done.select(
            pl.col("commit").cast(pl.Int64), pl.col("partition").cast(pl.Int32), pl.col("offset").cast(pl.Int64)
        )
        rows = rows.join(done, on=["commit", "partition", "offset"], how="anti")
    if where is not None:
        rows = rows.filter(_condition(where))
    return rows.sort("commit", "partition", "offset")


def _condition(where: str) -> pl.Expr:
    found = compiled(where, COLUMNS)
    if found.error is not None:
        raise DefinitionError(f"'{where}' can fail on a row", hint="use try_cast and the like")
    return found.value.fill_null(False)
