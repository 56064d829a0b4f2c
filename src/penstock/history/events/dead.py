"""Dead letters: rows that a stream rejected or an operator failed on, as text with the reason.

They are kept here for a retry after a fix.
"""

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

_NONE: Final = pl.DataFrame(schema={"stream": pl.String, "operator": pl.String, "reason": pl.String})


def letters_key(stream: str, reader: str | None) -> str:
    """The name under which the store records the retried dead letters of a stream.

    Several readers of a stream may have failed on the same event.

    >>> letters_key("orders", "enriched")
    'orders > enriched'
    """
    return stream if reader is None else f"{stream} > {reader}"


def dead_letters(history: EventHistory, name: str, where: str | None = None) -> pl.DataFrame:
    """The dead letters of a stream, operator, view or sink that were not retried, in the order in which they came.

    Of a stream these are rows that it refused. Of an operator, view or sink: rows on which its code or expressions
    failed, and `operator` says so. Rows that came to an operator itself are listed under the stream that it gives.
    """
    listing = history.store.listing()
    parts = [_of_stream(history, stream).filter(_is_of(stream, name)) for stream in sorted(listing.streams)]
    if name not in listing.streams and not any(part.height for part in parts):
        raise unknown("stream of the history", name, listing.streams)
    rows = _waiting(history, pl.concat(parts))
    if where is not None:
        rows = rows.filter(_condition(where))
    return rows.sort("commit", "stream", "partition", "offset")


def all_letters(history: EventHistory) -> pl.DataFrame:
    """All dead letters that were not retried."""
    streams = sorted(history.store.listing().streams)
    return _waiting(history, pl.concat([_of_stream(history, stream) for stream in streams])) if streams else _NONE


def _is_of(stream: str, name: str) -> pl.Expr:
    return pl.col("operator").is_null() if stream == name else pl.col("operator") == name


def _of_stream(history: EventHistory, stream: str) -> pl.DataFrame:
    """The dead letters of a stream and of all that read it, also retried ones."""
    listing = history.store.listing()
    rows = read_files(history.place, listing.of(stream, "dead"), dead_schema())
    tombstones = [tombstone for tombstone in listing.tombstones if tombstone.stream == stream]
    rows = without_erased_texts(rows, tombstones, Schema.parse(listing.streams[stream].schema))
    return rows.select(
        pl.lit(stream).alias("stream"),
        pl.col("view").alias("operator"),
        pl.col("__commit").alias("commit"),
        pl.col("__partition").alias("partition"),
        pl.col("__offset").alias("offset"),
        pl.col("at").cast(pl.Datetime("us", "UTC")),
        "reason", "row", "raw", "rest", "extent",
    )  # fmt: skip


def _waiting(history: EventHistory, rows: pl.DataFrame) -> pl.DataFrame:
    """Dead letters without retried ones."""
    done = history.store.query('SELECT stream AS key, "commit", partition, "offset" FROM __retried')
    if not rows.height or not done.height:
        return rows
    done = done.with_columns(
        pl.col("commit").cast(pl.Int64), pl.col("partition").cast(pl.Int32), pl.col("offset").cast(pl.Int64)
    )
    return with_keys(rows).join(done, on=["key", "commit", "partition", "offset"], how="anti").drop("key")


def with_keys(rows: pl.DataFrame) -> pl.DataFrame:
    """Dead letters with the `key` under which the store remembers them.

    Rows of several streams may come to an operator: `rest` has the number of the stream then.
    """
    source = pl.col("rest").str.json_path_match("$.__source")
    stream = pl.when(source.is_null()).then(pl.col("stream")).otherwise(pl.format("{} < {}", "stream", source))
    reader = pl.when(pl.col("operator").is_null()).then(stream).otherwise(pl.format("{} > {}", "stream", "operator"))
    return rows.with_columns(reader.alias("key"))


def _condition(where: str) -> pl.Expr:
    compiled_condition = compiled(where, COLUMNS)
    if compiled_condition.error is not None:
        raise DefinitionError(f"'{where}' can fail on a row", hint="use try_cast and the like")
    return compiled_condition.value.fill_null(False)
