"""What a commit tells of its epoch beside its effects: how many rows it had, how late they were, how much it took."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock.store.arrivals import Arrivals, forget_arrivals

if TYPE_CHECKING:
    from penstock.store.connection import Connection

FIGURE_TABLES: Final = (
    """CREATE TABLE __limits (stream TEXT PRIMARY KEY, unit TEXT NOT NULL, "limit" INTEGER NOT NULL)
       WITHOUT ROWID""",
    """CREATE TABLE __stale (stream TEXT NOT NULL, "table" TEXT NOT NULL, reason TEXT NOT NULL,
       PRIMARY KEY (stream, "table")) WITHOUT ROWID""",
)


@dataclass(frozen=True)
class Intake:
    """How much an epoch took of its log and at most could, in a unit, and how many events lay beyond it."""

    unit: str | None = None
    limit: int | None = None
    taken: int | None = None
    behind: int | None = None


@dataclass(frozen=True)
class Lateness:
    """How many events were late for at least one view, and how many pairs of an event and a view.

    A derived stream may find events late that it reads. They are not rows of its own: `inputs` is how many it has read,
    `late_inputs` how many of those were late.
    """

    events: int = 0
    pairs: int = 0
    inputs: int | None = None
    late_inputs: int = 0


@dataclass(frozen=True)
class Figures:
    """The figures of an epoch. `stale` says why tables that it joined could not be read again.

    An epoch without events has no arrivals, and neither have dead letters that are retried.
    """

    rows: int = 0
    lateness: Lateness = Lateness()
    intake: Intake = Intake()
    stale: Mapping[str, str] = field(default_factory=dict)
    arrivals: Arrivals | None = None


def write_figures(connection: Connection, stream: str, figures: Figures, tables: Collection[str]) -> None:
    """What outlives the commit: the limit that the next run begins with, and which of the joined tables are stale."""
    intake = figures.intake
    if intake.unit is not None and intake.limit is not None:
        connection.run(
            "INSERT INTO __limits VALUES (?1, ?2, ?3) "
            'ON CONFLICT (stream) DO UPDATE SET unit = excluded.unit, "limit" = excluded."limit"',
            [stream, intake.unit, intake.limit],
        )
    if tables:
        connection.run("DELETE FROM __stale WHERE stream = ?1", [stream])
    for table, reason in figures.stale.items():
        connection.run("INSERT INTO __stale VALUES (?1, ?2, ?3)", [stream, table, reason])


def forget_figures(connection: Connection, stream: str) -> None:
    """A stream is dropped."""
    for table in ("__limits", "__stale"):
        connection.run(f"DELETE FROM {table} WHERE stream = ?1", [stream])
    forget_arrivals(connection, stream)
