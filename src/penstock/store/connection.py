"""A connection to the store's database: frames in, frames out. SQLite and PostgreSQL have one each.

Statements are the same for both. Parameters stand as ?1, ?2 …; of a frame, one for each column in order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Final

import polars as pl
import pyarrow as pa

from penstock.store.base import StoreError
from penstock.store.dialect import Dialect

#: The number of rows in a batch.
BATCH: Final = 1 << 16


class Busy(StoreError):
    """Another connection writes, or has written since this one read."""


class Away(Busy):
    """The database cannot be reached, or the connection to it was lost. What was committed is there."""


class Full(StoreError):
    """There is no room for what was to be written; what was committed is there."""


class Connection(ABC):
    """One connection. A writing one is always in a transaction, which begins with its first statement.

    `lasts`: whether it may be kept for the next question.
    """

    dialect: Dialect
    lasts: bool = True

    @abstractmethod
    def rows(self, sql: str, parameters: Sequence[object] = ()) -> pl.DataFrame:
        """The rows that a statement gives."""

    @abstractmethod
    def rows_of(self, sql: str, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows that a statement gives for each row of the frame; without rows, a frame without columns."""

    @abstractmethod
    def version(self) -> object:
        """Something that is equal to what it was only if nobody has committed anything in between."""

    @abstractmethod
    def batches(self, sql: str, parameters: Sequence[object], like: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of a SELECT, `BATCH` at a time, inside of `moment`; several such streams may be open.

        `like` has a literal of each column's type, for a database that tells types by the first rows.
        """

    @abstractmethod
    def run(self, sql: str, parameters: Sequence[object] = ()) -> None:
        """Runs a statement for what it does."""

    def script(self, statements: Iterable[str]) -> None:
        """Runs statements one after the other."""
        for statement in statements:
            self.run(statement)

    @abstractmethod
    def put(
        self, table: str, frame: pl.DataFrame, *, columns: Sequence[str], values: Sequence[str] = (), conflict: str = ""
    ) -> None:
        """Inserts a row for each row of the frame: its columns as they are, or `values` made of them.

        `conflict` says what becomes of rows that are there already.
        """

    @abstractmethod
    def remove(self, table: str, where: str, frame: pl.DataFrame) -> None:
        """Deletes the rows for which the condition holds with some row of the frame."""

    @abstractmethod
    def change(self, table: str, to: str, where: str, frame: pl.DataFrame) -> None:
        """Updates the rows for which the condition holds with a row of the frame."""

    @abstractmethod
    def answer(self, sql: str, parameters: Sequence[object] = ()) -> pl.DataFrame:
        """The answer to a question, in the form that all stores have: times as text, booleans as 0 and 1."""

    @abstractmethod
    def moment(self) -> AbstractContextManager[None]:
        """All questions inside see the same commit."""

    @abstractmethod
    def commit(self) -> None:
        """Ends the transaction: what it did is there."""

    @abstractmethod
    def rollback(self) -> None:
        """Takes back what was not committed."""

    @abstractmethod
    def close(self) -> None:
        """Nothing is asked any more."""

    def check_place(self) -> None:  # noqa: B027
        """Refuses to go on where the database is another one than before, if that is known."""

    # what there is

    @abstractmethod
    def tables(self) -> list[str]:
        """The names of all tables."""

    @abstractmethod
    def columns_of(self, table: str) -> list[str]:
        """The columns of a table or view, in order."""

    @abstractmethod
    def kinds_of(self, table: str) -> list[tuple[str, str]]:
        """The columns of a table with their types in the database's words."""

    @abstractmethod
    def indexes_of(self, table: str) -> list[tuple[list[str], list[str]]]:
        """The indexes of a table that a user has asked for: their columns, and the statements that make them."""
