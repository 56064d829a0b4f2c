"""The audits that were made: when, of which view, as of which commit, and what they found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.model.time import Instant
from penstock.store.connection import Connection

AUDITS: Final = """CREATE TABLE IF NOT EXISTS __audits (id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL,
    view TEXT NOT NULL, "commit" INTEGER NOT NULL, rows INTEGER NOT NULL, events INTEGER NOT NULL,
    differences INTEGER NOT NULL, problems TEXT NOT NULL, unable TEXT, seconds REAL NOT NULL)"""
#: The number of audits that are kept.
_REMEMBERED: Final = 10_000


@dataclass(frozen=True)
class AuditRecord:
    """One audit. `differences` counts rows; `problems` are of the history or the definition; `unable` says why none."""

    at: Instant
    view: str
    commit: int
    rows: int
    events: int
    differences: int
    problems: str
    unable: str | None
    seconds: float


def note_audit(connection: Connection, record: AuditRecord) -> None:
    """Remembers an audit, and forgets very old ones."""
    connection.run(
        'INSERT INTO __audits (at, view, "commit", rows, events, differences, problems, unable, seconds) '
        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        [
            record.at, record.view, record.commit, record.rows, record.events, record.differences, record.problems,
            record.unable, record.seconds,
        ],
    )  # fmt: skip
    connection.run("DELETE FROM __audits WHERE id <= (SELECT max(id) FROM __audits) - ?1", [_REMEMBERED])
