"""Tries new definitions of an app that runs, before anything of it has changed: in a folder of their own."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.app import App
from penstock.control.changes import copied
from penstock.control.remembered import restore
from penstock.model.rows import Rows
from penstock.model.view import View
from penstock.plans.plan import Plan
from penstock.runtime.derived.epochs import waiting
from penstock.runtime.outputs import delivered_as
from penstock.runtime.queries.realtime import is_lane
from penstock.runtime.run import Run
from penstock.runtime.workspace import check_connector
from penstock.sinks import to_function
from penstock.sinks.base import Target
from penstock.store import SqliteStore, SqlStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


#: The options of a run that tell what is read, and not where anything lies.
_TRIED = ("bounds", "epoch_every", "table_sizes", "target")


@dataclass(frozen=True)
class Trial:
    """Definitions that Spark could analyze, whose sources answer. `shown` are what sinks would be opened for."""

    app: App
    shown: Mapping[str, View | Rows]

    @classmethod
    def of(cls, app: App, store: SqlStore, spark: SparkSession, options: Mapping[str, Any]) -> Trial:
        """Tries an app, with what shells have created. Raises what would end its start. Opens no sink."""
        wanted, tried = copied(app), {name: options[name] for name in _TRIED if name in options}
        restore(wanted, store.catalog())
        check_connector(spark, wanted.streams)
        outlets = {
            name: (of, what, to_function(_ignore)) for name, (of, what, to) in wanted.sinks.items() if not is_lane(to)
        }
        with tempfile.TemporaryDirectory(prefix="penstock-trial-") as folder:
            own = SqliteStore.open(Path(folder))
            own.lock()
            run = Run(
                wanted.name, waiting(wanted.streams), wanted.views, Path(folder), sinks=outlets, store=own,
                spark=spark, placements=wanted.placements, **tried,
            )  # fmt: skip
            try:
                shown = {name: delivered_as(run.groups, of, what) for name, (of, what, _) in outlets.items()}
            finally:
                run.stop()
        return cls(wanted, shown)

    def open_sinks(self, plan: Plan, store: SqlStore) -> None:
        """Opens sinks that are new or others, and closes them again. The app is stopped."""
        names = [change.name for change in plan.changes if change.kind == "sink" and change.verb in ("add", "change")]
        for name in names:
            if name in self.shown:
                of, _, sink = self.app.sinks[name]
                target = Target(name, of, self.shown[name], store, self.app.name, store.check_owner, store.took_over)
                sink.open(target).close()


def _ignore(rows: list[dict[str, Any]]) -> None:
    """Takes rows, and does nothing with them."""
