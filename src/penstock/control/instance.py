"""What runs of an app from one set of definitions to the next: the run, and what goes on beside it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.app import App
from penstock.control.changes import copied
from penstock.control.new_views import to_fill, without
from penstock.control.remembered import only, restore
from penstock.control.statements import Statements
from penstock.control.works import Works
from penstock.history.batch.runs import back_fill
from penstock.model.changes import below
from penstock.model.time import Duration
from penstock.query.ask import Questions
from penstock.runtime.derived.epochs import waiting
from penstock.runtime.run import Companion, Run
from penstock.store import SqlStore


class Instance:
    """An app with what shells have added to it, on a locked store. `options` are those of `Run`.

    It computes and audits views as often as they say, and fills new views from the history.
    """

    def __init__(
        self, app: App, directory: Path, store: SqlStore, companion: Companion, options: Mapping[str, Any]
    ) -> None:
        self.app = copied(app)
        self._remembered = restore(self.app, store.catalog())
        self._new = to_fill(self.app, store, options.get("history_at"))
        begun = without(self.app, self._new)
        self.run = Run(
            app.name, waiting(begun.streams), begun.views, directory, sinks=begun.sinks,
            resting=sorted(self._remembered.resting), store=store, companion=companion,
            placements=self.app.placements, **options,
        )  # fmt: skip
        self.warnings = [*self._remembered.warnings, *map(_drained, self.run.drained)]
        self.questions = Questions(self.run.store, own_tables=True)
        self.works = Works(self.run, self._schedule, lambda name, view: self.statements.define(name, view))
        self.statements = Statements(self.app, self.run, self.works, self._remembered)
        self._filler = threading.Thread(target=self._fill_new, name="penstock-fill", daemon=True)
        for kind, name in self._remembered.taken:
            self.run.store.note(kind, name, None)

    @property
    def own(self) -> App:
        """The app without what shells have created: what can be started again."""
        return only(self.app, self._remembered.own)

    def begin(self) -> None:
        """The run reads: what goes on beside it begins."""
        self.works.start()
        self._filler.start()

    def end(self) -> None:
        """Takes no more statements, and gives up what is computed."""
        self.statements.refuse()
        self.works.stop()
        self.statements.wait()

    def ready(self) -> None:
        """Waits until new views have their history."""
        if self._filler.is_alive():
            self._filler.join()

    def _schedule(self) -> dict[tuple[str, str], Duration]:
        batches = {("batch", name): every for name, every in self.app.batches.items()}
        return batches | {("audit", name): every for name, every in self.app.audits.items()}

    def _fill_new(self) -> None:
        """The views that are new to the store begin with all of history; their sinks follow them."""
        # A shell may have made one, and the app was killed before it was whole.
        texts = {entry.name: entry.statement for entry in self.run.store.catalog() if entry.kind == "view"}
        for name in self._new:
            try:
                view = self.app.views[name]
                if below(view.input):
                    self.run.add_view(name, view, texts.get(name))
                else:
                    with self.works.one() as hear:
                        back_fill(self.run, name, view, statement=texts.get(name), on_progress=hear)
                for sink, (of, what, to) in self.app.sinks.items():
                    if of == name:
                        self.run.add_sink(sink, of, what, to)
            except Exception as error:
                self.works.failures[name] = error


def _drained(stream: str) -> str:
    """What to tell of a stream whose input had ended before."""
    return f"the stream '{stream}' was drained: what it brings now is late; penstock batch counts it"
