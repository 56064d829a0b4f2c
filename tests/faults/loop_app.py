"""An app with loops, and the process of it that the kill tests kill.

    python tests/faults/loop_app.py DIRECTORY

It says and hears what `tests.faults.app` does; its fault points are those of `tests.faults.process_app`, which lie
around the epochs of the stream 'runs': here, of connected components.
"""

from __future__ import annotations

from pathlib import Path

import penstock as ps
from penstock.app import App
from tests.faults.app import SCHEMA
from tests.faults.process_app import main

#: Events as edges: chains that grow together as more of them come.
EDGE = {"a": "v % 400", "b": "CAST(id % 150 AS bigint) + 1000"}


class Sums(ps.Loop):
    """What a key has got, and passed on to the key below; events with some values are poison."""

    output = "key bigint, got bigint"

    def enter(self, event):
        yield event.a % 20, event.b

    def step(self, key, state, messages, round):
        if any(message % 149 == 7 for message in messages):
            raise ValueError("refused")
        return (state or 0) + sum(messages), [(key - 1, message // 2) for message in messages if key and message]

    def show(self, key, state):
        return key, state


def define(root: Path) -> tuple[App, ps.Stream, dict[str, ps.Stream]]:
    app = App("faulty")
    events = app.stream(
        "events", ps.files(root / "in", files_per_epoch=1), schema=SCHEMA, event_time="at",
        watermark=ps.bounded("20 seconds", idle=None), id="id", max_ahead=None,
    )  # fmt: skip
    edges = events.select(**EDGE)
    loops = {
        "runs": app.iterate("runs", edges, ps.connected_components("a", "b")),
        "sums": app.iterate("sums", edges, Sums),
    }
    app.view("labels", loops["runs"].group_by("vertex").agg(component=ps.max("component"), n=ps.count()))
    app.view("got", loops["sums"].group_by("key").agg(got=ps.max("got"), n=ps.count()))
    app.sink(loops["runs"], ps.to_jsonl(root / "rows"))

    def over(epoch):
        with (root / "called").open("a") as file:
            file.write(f"{epoch.number}\n")
        return {"labels": epoch.query("SELECT count(*) FROM labels").item()}

    told = app.on_epoch("told", events, over, output="labels bigint")
    app.view("epochs", told.group_by("epoch").agg(n=ps.count(), labels=ps.max("labels")))
    return app, events, loops


if __name__ == "__main__":
    main(define, tick=0.5, rounds=3)
