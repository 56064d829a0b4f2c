"""The format of a store, as those who read it need to know it: its number, and the name that stands for segments."""

from __future__ import annotations

from typing import Final

from penstock.store.base import StoreError

FORMAT: Final = 10
#: The oldest format that can be migrated.
OLDEST: Final = 2
#: A view whose rows are in segments has no table of its name in the database.
IN_SEGMENTS: Final = "__kept in segments, read it with: penstock query"


def check_known(where: str, version: int) -> None:
    """Refuses a store of a newer version, and one that is too old."""
    if version > FORMAT:
        raise StoreError(
            f"the store '{where}' has format {version}, and this version of Penstock reads {FORMAT}",
            hint="use the newer version that wrote it",
        )
    if version < OLDEST:
        raise StoreError(
            f"the store '{where}' has format {version}, and this version of Penstock migrates those from {OLDEST} on",
            hint="use the version that wrote it, or start in an empty directory and read the streams again",
        )


def check_migrated(where: str, version: int) -> None:
    """The same for those who only read: they cannot migrate it."""
    check_known(where, version)
    if version < FORMAT:
        raise StoreError(
            f"the store '{where}' was written by an earlier version of Penstock",
            detail=f"it has format {version}, and this version reads format {FORMAT}",
            hint="start the app with this version: it migrates the store. Or read it with the version that wrote it",
        )
