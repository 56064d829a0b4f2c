"""A view in the store as of one commit: its rows, and what has happened to it since it began."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from penstock.errors import PenstockError
from penstock.history.batch.differences import PLACE, compared
from penstock.history.batch.table_rows import table_rows
from penstock.model.time import BEGINNING, Instant
from penstock.store.reader import Reader
from penstock.store.tables import Layout


@dataclass(frozen=True)
class ViewMoment:
    """The view in the store, all as of one commit."""

    commit: int
    now: Instant
    watermark: Instant
    definition: str
    fingerprint: str
    since: int
    point: int
    kind: str | None
    woken: int | None
    retained: int | None  # the last commit at which it had another retention
    late: int
    rows: pl.DataFrame


def moment_of(reader: Reader, layout: Layout, as_of: int | None = None) -> ViewMoment:
    """All that the store has of a view now; of its generations those that were there as of a commit."""
    columns = list(dict.fromkeys([*PLACE, "final", *layout.plan.keys, *compared(layout)]))
    name = layout.name
    sources = [source.name for source in layout.plan.streams]
    with reader.moment_of() as connection:

        def one(sql: str, *parameters: object) -> tuple[Any, ...]:
            rows = connection.answer(sql, parameters)
            return rows.row(0) if rows.height else (None,) * rows.width

        commit, now = one("SELECT coalesce(max(number), 0), coalesce(max(now), 0) FROM __commits")
        watermark, definition, fingerprint = one(
            "SELECT watermark, definition, fingerprint FROM __views WHERE name = ?1", name
        )
        if definition is None:
            raise PenstockError(f"the store has no view '{name}' yet", hint="run the app first")
        since, rested = one("SELECT since, rested FROM __catalog WHERE kind = 'view' AND name = ?1", name)
        point, number = one(
            "SELECT max(point), max(number) FROM __generations WHERE view = ?1 AND "
            "kind IN ('batch', 'as-live', 'replace', 'back-fill', 'rollback') "
            'AND "commit" <= coalesce(?2, "commit")',
            name, as_of,
        )  # fmt: skip
        (replayed,) = one(
            "SELECT max(number) FROM __generations WHERE view = ?1 AND kind = 'replay' AND number > ?2",
            name, number or 0,
        )  # fmt: skip
        (woken,) = one("SELECT value FROM __meta WHERE name = 'woken:' || ?1", name)
        (retained,) = one("SELECT value FROM __meta WHERE name = 'retained:' || ?1", name)
        late = sum(one("SELECT value FROM __counters WHERE name = ?1", f"{source}.late")[0] or 0 for source in sources)
        # Another definition has other columns, and nothing to compare with.
        known = fingerprint == layout.plan.written.fingerprint()
        rows = table_rows(connection, reader.directory, layout, columns) if known else pl.DataFrame()
    return ViewMoment(
        commit if rested is None else min(commit, rested), now, BEGINNING if watermark is None else watermark,
        definition, fingerprint, since or 0, point or 0, "replay" if replayed else None, woken, retained, late,
        rows,
    )  # fmt: skip
