"""Removes files that are no part of the master: replaced ones after a while, and those that no commit ever listed.

A file's name begins with the commit that it was written for. An epoch that runs writes for the next commit, so a file
of an earlier one that is not on the list belongs to an attempt that failed.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.lake.place import Place
from penstock.model.time import Instant
from penstock.store.base import Store

_COMMIT: Final = re.compile(r"(\d+)-")


def sweep(place: Place, store: Store, before: Instant, needed_from: int) -> int:
    """Removes what was replaced before an instant, and before the commit from which on files are needed; how many."""
    replaced = [file.path for file in store.removed_files(before, needed_from)]
    home = store.listing().home
    for path in replaced:
        if path.startswith(f"{home}/"):  # what another store wrote is not ours to remove
            place.remove(path)
    store.forget_files(replaced)
    return len(replaced)


def sweep_orphans(place: Place, store: Store, home: str) -> int:
    """Removes files of this store's home that no commit listed; how many."""
    found = place.names(
        home
    )  # first what is there, then what is listed: a file that appears meanwhile is not looked at
    listing = store.listing()
    listed = {file.path for file in listing.files} | {file.path for file in store.removed_files(1 << 62)}
    orphans = [path for path in found if path not in listed and _commit(path) <= listing.last]
    for path in orphans:
        store.check_owner()  # whoever has taken over may be compacting
        place.remove(path)
    return len(orphans)


def _commit(path: str) -> int:
    """The commit that a file was written for; one that nobody knows is left alone."""
    match = _COMMIT.match(path.rpartition("/")[2])
    return int(match[1]) if match else 1 << 62
