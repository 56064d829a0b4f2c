"""The history of a run: the events that it keeps, what is compacted and erased, and savepoints."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from penstock.history.events.compact import Rules
from penstock.history.events.erase import erase
from penstock.history.events.event_history import EventHistory
from penstock.history.savepoints import Savepoint, create
from penstock.model.time import not_negative
from penstock.runtime.keeper import Keeper
from penstock.runtime.queries.lifecycle import Lifecycle
from penstock.runtime.workspace import Workspace
from penstock.store.file import Tombstone


class History:
    """Keeps it at a location, or beside the store. Files that compaction has replaced stay for a `grace`."""

    def __init__(
        self, workspace: Workspace, lifecycle: Lifecycle, location: str | Path | None, grace: str | timedelta
    ) -> None:
        self._workspace, self._lifecycle = workspace, lifecycle
        self.events = EventHistory(workspace.store, None if location is None else str(location))
        rules = Rules(grace=not_negative(grace, "the grace of replaced files"))
        self.keeper = Keeper(self.events, lifecycle.clock, rules)

    def savepoint(self, name: str, to: Path | None = None) -> Savepoint:
        """Takes a consistent cut of store, offsets and definitions, here or at a path. Epochs go on meanwhile."""
        return create(self._workspace.directory, name, to=to, app=self._workspace.app)

    def erase(self, stream: str, condition: str, reason: str | None = None) -> Tombstone:
        """Erases the events of a stream so far for which a condition holds: batch runs leave them out from now on."""
        return erase(self._workspace.store, stream, condition, reason, self._lifecycle.clock())


__all__ = ["EventHistory", "History"]
