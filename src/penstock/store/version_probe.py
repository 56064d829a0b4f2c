"""Tells whether a store may have changed, so that what was read of it can be used again."""

from __future__ import annotations

from penstock.store.base import StoreError
from penstock.store.connection import Connection
from penstock.store.reader import Reader


class VersionProbe:
    """A connection that asks for nothing but the version of the store. For one thread at a time."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._connection: Connection | None = None

    def version(self) -> object:
        """Something that is equal to what it was only if nothing was committed in between."""
        if self._connection is not None:
            try:
                return self._connection, self._connection.version()
            except StoreError:  # the connection is lost, or the file was replaced
                self.close()
                self._reader.close()
        self._connection = self._reader.database.connect()
        version = self._connection, self._connection.version()
        if not self._connection.lasts:  # it does not notice a writer that starts
            self.close()
        return version

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
