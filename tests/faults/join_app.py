"""An app with a join of streams and one with a table, and the process of it that is killed.

`python tests/faults/join_app.py DIRECTORY` says and hears what `tests.faults.process_app` does. Its fault points lie
around the epochs of its inputs and their transactions.
"""

from __future__ import annotations

from pathlib import Path

import penstock as ps
from penstock.app import App
from penstock.runtime.tables import tables
from tests.faults.app import SCHEMA
from tests.faults.process_app import main


def define(root: Path) -> tuple[App, ps.Stream, ps.Stream]:
    app = App("faulty")
    events = app.stream(
        "events", ps.files(root / "in", files_per_epoch=1), schema=SCHEMA, event_time="at",
        watermark=ps.bounded("20 seconds", idle=None), id="id", max_ahead=None,
    )  # fmt: skip
    names = app.table("names", ps.files(root / "names"), schema="k string, name string", key="k", reload="on change")
    small = events.where("v < 500").select("id", "k", "at")
    large = events.where("v >= 500").select("k", other="id", then="at")
    runs = app.join(
        "runs", small, large, on="k", within=("-2 seconds", "3 seconds"), how="left", event_time="at", max_ahead=None,
        watermark=ps.bounded("1 minute", idle=None),
    )  # fmt: skip
    app.view("by_key", runs.group_by("k").agg(rows=ps.count(), others=ps.count("other")))
    app.view("by_name", events.join(names, how="left").group_by("k", "name").agg(rows=ps.count()))
    return app, events, runs


if __name__ == "__main__":
    tables.KEPT = 100  # the test looks at every version that a commit had
    main(define, tick=0.2, rounds=2, stream="events")
