"""Removes files that are not part of the history: replaced ones after a while, and those that no commit ever listed.

A file's name begins with the id of the attempt that wrote it. An attempt that is still running may list its files
later; a file of any other attempt that is not on the list is garbage.
"""

from __future__ import annotations

from penstock.history.events.place import Place
from penstock.history.events.writes import WritesInFlight, is_ours, write_id_of
from penstock.model.time import Instant
from penstock.store.base import Store


def sweep(place: Place, store: Store, before: Instant, needed_from: int) -> int:
    """Removes what was replaced before an instant, and before the commit from which on files are needed; how many."""
    replaced = [file.path for file in store.removed_files(before, needed_from)]
    home = store.listing().home
    for path in replaced:
        if path.startswith(f"{home}/"):  # what another store wrote is not ours to remove
            place.remove(path)
    store.forget_files(replaced)
    return len(replaced)


def sweep_orphans(place: Place, store: Store, home: str, writes: WritesInFlight) -> int:
    """Removes files of this store's home that no commit listed; how many."""
    # The order matters. A file that is there now belongs to an attempt that is running, or that has ended before the
    # list is read, and then its commit is on the list.
    files = place.names(home)
    running = writes.ids()
    listed = {file.path for file in store.listing().files} | {file.path for file in store.removed_files(1 << 62)}
    orphans = [path for path in files if is_ours(path) and path not in listed and write_id_of(path) not in running]
    for path in orphans:
        store.check_owner()  # another process may have taken over and be writing
        place.remove(path)
    return len(orphans)
