"""An app with a join, a processor and views behind them, and the process of it that the kill tests kill.

`python tests/faults/operator_app.py DIRECTORY` says and hears what `tests.faults.process_app` does. Operators run in
the epochs of their input, so the fault points lie around those.
"""

from __future__ import annotations

from pathlib import Path

import penstock as ps
from penstock.app import App
from penstock.model.process import Processed
from tests.faults import process_app


def define(root: Path) -> tuple[App, ps.Stream, tuple[ps.Stream, Processed]]:
    """The app of the processor, with a join beside it."""
    app, events, runs = process_app.define(root)
    small = events.where("v < 500").select("id", "k", "at")
    large = events.where("v >= 500").select("k", other="id", then="at")
    joined = app.join(
        "joined", small, large, on="k", within=("-2 seconds", "3 seconds"), how="left", event_time="at", max_ahead=None,
        watermark=ps.bounded("1 minute", idle=None),
    )  # fmt: skip
    app.view("by_key", joined.group_by("k").agg(rows=ps.count(), others=ps.count("other")), state="sharded", shards=4)
    return app, events, (joined, runs)


if __name__ == "__main__":
    process_app.main(define, tick=3600.0, stream="events")
