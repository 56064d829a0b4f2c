"""Erasures: a tombstone says which rows are gone. Nothing is edited; reading honours it, and compaction applies it.

>>> checked("user = 'x'", Schema.parse("user string"))
"user = 'x'"
"""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from penstock.errors import DefinitionError, unknown
from penstock.history.events.texts import holds
from penstock.kernel.elements import compiled
from penstock.kernel.expressions import dtype
from penstock.model.expressions import bind
from penstock.model.time import Instant
from penstock.model.types import Schema
from penstock.store.base import Store
from penstock.store.file import Tombstone


def erase(store: Store, stream: str, condition: str, reason: str | None, now: Instant) -> Tombstone:
    """Appends a tombstone: the rows of a stream so far for which a condition holds are gone.

    Of rejected rows the store deletes the text, and keeps the reason.
    """
    streams = store.listing().streams
    if stream not in streams:
        raise unknown("stream of the history", stream, streams)
    schema = Schema.parse(streams[stream].schema)
    tombstone = store.erase(stream, checked(condition, schema), reason, now)
    refused = store.query("SELECT rowid AS id, row FROM __refused WHERE stream = ?1 AND row IS NOT NULL", [stream])
    if refused.height:
        store.erase_refused(refused.filter(holds(refused["row"].to_list(), condition, schema))["id"].to_list())
    return tombstone


def checked(condition: str, schema: Schema) -> str:
    """A tombstone's condition: it must be decidable on any row, with Spark and without."""
    bound = bind(condition, schema)
    if bound.type not in (None, "boolean"):
        raise DefinitionError(f"'{condition}' is {bound.type}, and must be true or false")
    if bound.tree is None:
        raise DefinitionError(
            f"'{condition}' cannot be a tombstone's condition", detail=bound.outside, hint="compare columns with values"
        )
    if not bound.columns:
        raise DefinitionError(f"'{condition}' names no column", hint="name the rows: \"user = 'x'\"")
    if compiled(condition, schema).error is not None:
        raise DefinitionError(
            f"'{condition}' can fail on a row, and a tombstone must not", hint="use try_cast and the like"
        )
    return condition


def gone(tombstones: Iterable[Tombstone], schema: Schema) -> pl.Expr:
    """Whether a row of the history (with `__commit`) is erased."""
    erased = pl.lit(False)
    for tombstone in tombstones:
        holds = compiled(tombstone.condition, schema).value.fill_null(False)
        erased = erased | ((pl.col("__commit") <= tombstone.commit) & holds)
    return erased


def without_erased(rows: pl.DataFrame, tombstones: Iterable[Tombstone], schema: Schema) -> pl.DataFrame:
    """The rows that are left. An older file may lack a column: its rows have null there."""
    lacking = [pl.lit(None, dtype(kind)).alias(name) for name, kind in schema if name not in rows.columns]
    left = rows.with_columns(lacking).filter(~gone(tombstones, schema)) if rows.height else rows
    return left.select(rows.columns)
