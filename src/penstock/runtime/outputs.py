"""The outputs of a run: panes and rows through the outbox to sinks, and rows in real-time mode."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Final, TypeAlias

from penstock.model.rows import Rows
from penstock.model.stream import Flow
from penstock.model.view import View
from penstock.runtime.groups import Groups
from penstock.runtime.queries.lifecycle import Lifecycle
from penstock.runtime.queries.realtime import Lanes, is_lane
from penstock.runtime.workspace import Workspace
from penstock.sinks import Delivery, Sink
from penstock.store import StoreError

#: What sinks deliver: the name of a view or a flow, itself, and where it goes.
Sinks: TypeAlias = Mapping[str, tuple[str, View | Flow, Sink]]
_OUTBOX: Final = "the outbox"


def flows_of(sinks: Sinks) -> dict[str, Flow]:
    """The flows that go to sinks by the outbox."""
    return {of: flow for of, flow, sink in sinks.values() if isinstance(flow, Flow) and not is_lane(sink)}


def delivered_as(groups: Groups, name: str, what: View | Flow) -> View | Rows:
    """A view or a flow as sinks take it: with the types that Spark knows."""
    if isinstance(what, Flow):
        registry = groups.of(what.sources[0].name).engine.registry
        return Rows.of(what, registry.lowered.outputs[name].schema)
    return groups.views[name].plan.view


class Outputs:
    """Delivers after commits, and periodically: a sink that failed may be due again."""

    def __init__(
        self, workspace: Workspace, groups: Groups, lifecycle: Lifecycle, sinks: Sinks, every: float = 1.0
    ) -> None:
        store, self._lifecycle, self._every = workspace.store, lifecycle, every
        self.delivery = Delivery(
            store,
            {
                name: (of, delivered_as(groups, of, what), sink)
                for name, (of, what, sink) in sinks.items()
                if not is_lane(sink)
            },
            commit_positions=store.delivered,
            trim=store.trim_outbox,
            app=workspace.app,
            check_owner=store.check_owner,
            takes_over=store.took_over,
            now=lifecycle.clock,
        )
        lanes = {name: to for name, to in sinks.items() if is_lane(to[2])}
        self.lanes = Lanes(workspace.spark, workspace.app, workspace.directory, store, lanes)
        self._thread = threading.Thread(target=self._deliver, name="penstock-delivery", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Delivers what there is, and closes the sinks."""
        self._lifecycle.committed.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()
        try:
            self.delivery.drain()
        except StoreError:
            if self._lifecycle.failure is None:  # else that is why we stop
                raise
        finally:
            self.delivery.close()

    def _deliver(self) -> None:
        while not self._lifecycle.stopping.is_set():
            self._lifecycle.committed.wait(self._every)
            self._lifecycle.committed.clear()
            try:
                self.delivery.start()
                self._lifecycle.retries.succeeded(_OUTBOX)
            except BaseException as error:
                if not self._lifecycle.retries.failed(_OUTBOX, error):
                    self._lifecycle.fail(error)
                    return
