"""Brings a store that an earlier version wrote to the format of this one: steps in order, all in one transaction.

A step is a function of the connection. A new format is a new step at the end of `MIGRATIONS`, and nothing else in the
code knows what a store was like before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from penstock.store import catalog, files, format_4, generations, outbox, versions
from penstock.store.arrivals import ARRIVAL_TABLES
from penstock.store.audits import AUDITS
from penstock.store.connection import Connection
from penstock.store.figures import FIGURE_TABLES
from penstock.store.format import check_known
from penstock.store.marks import MARK_TABLES, several_streams
from penstock.store.operators import OPERATOR_TABLES
from penstock.store.pane_files import PANE_FILES
from penstock.store.segments import SEGMENT_TABLES
from penstock.store.tables import OWN_TABLES


@dataclass(frozen=True)
class Migration:
    """The step to a format from the one before it."""

    format: int
    run: Callable[[Connection], None]


def create(connection: Connection) -> None:
    """The tables of an empty store."""
    connection.script(OWN_TABLES)
    connection.script((catalog.CATALOG, generations.GENERATIONS, AUDITS))
    connection.script((*MARK_TABLES, *FIGURE_TABLES, *versions.VERSIONS))
    connection.script((*SEGMENT_TABLES, *OPERATOR_TABLES, *PANE_FILES, *ARRIVAL_TABLES))
    files.create(connection)
    outbox.create(connection)


def migrate(connection: Connection, where: str, version: int) -> None:
    """Takes the steps from a store's format to this version's. The caller ends the transaction and notes the format."""
    check_known(where, version)
    for migration in MIGRATIONS:
        if migration.format > version:
            migration.run(connection)


def _dataflow(connection: Connection) -> None:
    """Since format 7 a commit may have rows of several streams, and operators have state."""
    connection.script(OPERATOR_TABLES)
    several_streams(connection)


def _history(connection: Connection) -> None:
    """Since format 10 the history is called so in the store too."""
    if "__master" in connection.tables():
        connection.run("ALTER TABLE __master RENAME TO __history")


#: By the format that they lead to.
MIGRATIONS: Final = (
    Migration(4, format_4.migrate),
    Migration(5, outbox.take_over),
    Migration(6, lambda connection: connection.script(SEGMENT_TABLES)),
    Migration(7, _dataflow),
    Migration(8, lambda connection: connection.script(PANE_FILES)),
    Migration(9, lambda connection: connection.script(ARRIVAL_TABLES)),
    Migration(10, _history),
)
