"""What a store records of an app besides its commits: audits, other names of parts, sources that are read again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from penstock.kernel.plan import Plan
from penstock.store.audits import AuditRecord, note_audit
from penstock.store.catalog import check_delivery_name
from penstock.store.entry import DELIVERY_NAMES
from penstock.store.rename import rename_sink, rename_view
from penstock.store.signed import Signer
from penstock.store.tables import set_meta
from penstock.store.view_states import Access


class AppRecords:
    """Writes them, each in a transaction of its own or as a part of a larger one."""

    def __init__(self, access: Access, directory: Path) -> None:
        self._access, self._directory = access, directory

    def note_audit(self, record: AuditRecord) -> None:
        """Remembers the result of an audit."""
        with self._access.transaction() as connection:
            note_audit(connection, record)

    def rename_view(self, old: str, new: str, plan: Plan) -> None:
        """Gives a view another name. It keeps its rows, its state and its generations. No run may have it meanwhile."""
        with self._access.transaction() as connection:
            rename_view(connection, plan, old, new, Signer(self._directory))

    def rename_sink(self, old: str, new: str) -> None:
        """Gives a sink another name. It goes on where it was."""
        with self._access.transaction() as connection:
            rename_sink(connection, old, new)

    def check_delivery_names(self, sinks: Iterable[str]) -> None:
        """Rejects sinks with the first name of one that was renamed, also in the transaction that renames it."""
        with self._access.transaction() as connection:
            names = dict(connection.rows(DELIVERY_NAMES).iter_rows())
        for sink in sinks:
            check_delivery_name(sink, names)

    def forget_position(self, stream: str, query: str | None) -> None:
        """Forgets how far a stream's source was read, by the query that has read it. Its events stay."""
        with self._access.transaction() as connection:
            connection.run("DELETE FROM __progress WHERE query = ?1", [query or ""])
            set_meta(connection, f"reread:{stream}", 1)

    def note_position(self, stream: str) -> None:
        """A source is read from its beginning again: an epoch of it is committed."""
        with self._access.transaction() as connection:
            connection.run("DELETE FROM __meta WHERE name = 'reread:' || ?1", [stream])
