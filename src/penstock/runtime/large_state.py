"""State of a run that is in segments: who steps it, who merges its runs, and who removes files that nobody needs.

Who steps it also runs user code: so the watch over code that hangs is here too.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.history.events.pins import NONE, needed_from
from penstock.model.placement import Placement as Placement
from penstock.model.time import Duration, Instant
from penstock.runtime.code_watch import FOLDER, LONG, CodeMonitor
from penstock.runtime.commit.shards import Shards
from penstock.runtime.queries.lifecycle import Lifecycle
from penstock.runtime.state_keeper import StateKeeper
from penstock.runtime.workspace import Workspace
from penstock.state.sweep import GRACE, sweep_orphans, sweep_panes, sweep_replaced


class LargeState:
    """`placements` are the choices of users by view. Files that were replaced stay for a `grace`."""

    def __init__(
        self,
        workspace: Workspace,
        lifecycle: Lifecycle,
        placements: Mapping[str, Placement] | None = None,
        grace: Duration = GRACE,
        long_calls: float = LONG,
    ) -> None:
        self._workspace, self._grace = workspace, grace
        self.shards = Shards(workspace.store, lambda: workspace.spark, placements)
        running = f"{workspace.store.segments_at}/{FOLDER}"
        self._monitor = CodeMonitor(running, workspace.store.note_long_calls, long_calls)
        self.shards.watch = self._monitor.watch
        self.keeper = StateKeeper(workspace.store, self.shards, lambda: workspace.spark, lifecycle.clock, self)

    def start(self) -> None:
        """No epoch runs yet."""
        self.keeper.start()
        self._monitor.start()

    def stop(self) -> None:
        """Waits for the current merge."""
        self.keeper.stop()
        self._monitor.stop()

    def sweep(self, now: Instant) -> int:
        """Removes files that no list names, and those that were replaced a while ago; how many."""
        store = self._workspace.store
        replaced = sweep_replaced(store, now, self._grace, self._pinned(now))
        return replaced + self.sweep_panes(now) + sweep_orphans(store, self.shards.writes.ids)

    def sweep_panes(self, now: Instant) -> int:
        """Removes the files of panes that everyone has; how many."""
        return sweep_panes(self._workspace.store, now, needed_from=self._pinned(now))

    def _pinned(self, now: Instant) -> int | None:
        """The oldest commit that a pin names."""
        first = needed_from(self._workspace.store.directory, now)
        return None if first == NONE else first
