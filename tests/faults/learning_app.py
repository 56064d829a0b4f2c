"""An app with models, and the process of it that the kill tests kill.

    python tests/faults/learning_app.py DIRECTORY

It says and hears what `tests.faults.process_app` does; its fault points lie around the epochs of the model and their
transactions.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import penstock as ps
from penstock.app import App
from penstock.learning import Factors
from penstock.runtime.derived.learning.source import LearnerSource
from tests.faults.app import SCHEMA
from tests.faults.process_app import main


class Guarded(Factors):
    """Refuses some of the rows."""

    def learn(self, model, rows):
        if (rows["v"] % 17 == 0).any():
            raise ValueError("refused")
        return super().learn(model, rows)


class OneByOne(LearnerSource):
    """Takes as few commits an epoch as it can, however long the last one took: those of one file of the history."""

    def limited(self, limit: int) -> LearnerSource:
        return self


def define(root: Path) -> tuple[App, ps.Stream, ps.Stream]:
    app = App("faulty")
    events = app.stream(
        "events", ps.files(root / "in", files_per_epoch=1), schema=SCHEMA, event_time="at",
        watermark=ps.bounded("20 seconds", idle=None), id="id", max_ahead=None,
    )  # fmt: skip
    rated = events.select("id", "k", "at", item="id % 7", v="v", stars="v / 200D")
    runs = app.learn(
        "runs", rated, Guarded("k", "item", "stars", factors=3), give=("id", "k", "at"), by="k", partitions=3,
        versions=5, event_time="at", watermark=ps.bounded("1 minute", idle=None), max_ahead=None,
    )  # fmt: skip
    runs = app.streams["runs"] = replace(runs, log=OneByOne(runs.log.learning, limit=1))
    app.view("error", runs.group_by("version").agg(rows=ps.count(), loss=ps.avg("loss")))
    app.sink(runs, ps.to_jsonl(root / "rows"))
    return app, events, runs


if __name__ == "__main__":
    main(define, tick=3600.0)
