"""An app with topologies of each guarantee, and the process of it that the kill tests kill.

    python tests/faults/topology_app.py DIRECTORY

It says and hears what `tests.faults.process_app` does. Besides the fault points there, which lie around the epochs of
the topology 'runs' and their transactions, the driver dies between two jobs of an epoch, and a bolt kills the process
that it runs in, once.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import penstock as ps
from penstock.app import App
from penstock.runtime.derived.topologies.jobs import SparkRunner
from penstock.topology.streams import Flowing
from tests.faults import process_app
from tests.faults.app import SCHEMA

BETWEEN, WORKER = "between two jobs", "a worker dies"
STEPS = (*process_app.STEPS, BETWEEN, WORKER)


class Flaky(ps.Bolt):
    """Fails some tuples at first and some for ever; kills its process where it is told to, once."""

    outputs = "k string, v bigint"

    def __init__(self, root: str) -> None:
        self.root = root

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector

    def execute(self, tup: Any) -> None:
        told = Path(self.root) / "KILL"
        if tup.v % 7 == 3 and told.exists():
            told.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        self.collector.emit((tup.k, tup.v), anchors=tup)
        if tup.v % 17 == 0 or (tup.v % 5 == 0 and not tup.attempt):
            self.collector.fail(tup, "refused")
        else:
            self.collector.ack(tup)


class Sums(ps.StatefulBolt):
    """The number and the sum of a key, emitted whenever they change."""

    outputs = "k string, n bigint, s bigint"

    def execute(self, tup: Any, collector: Any) -> Any:
        n, s = self.state.get(tup.k, (0, 0))
        n, s = self.state[tup.k] = (n + 1, s + tup.v)
        yield tup.k, n, s


def define(root: Path) -> tuple[App, ps.Stream, dict[str, Flowing]]:
    app = App("faulty")
    events = app.stream(
        "events", ps.files(root / "in", files_per_epoch=1), schema=SCHEMA, event_time="at",
        watermark=ps.bounded("20 seconds", idle=None), id="id", max_ahead=None,
    )  # fmt: skip
    made = {}
    for name, guarantee in (("runs", "exactly_once"), ("least", "at_least_once"), ("most", "at_most_once")):
        builder = ps.TopologyBuilder().spout("events", events)
        builder.bolt("flaky", Flaky(str(root)), 2).shuffle("events")
        builder.bolt("sums", Sums, 2).fields("flaky", "k")
        made[name] = app.topology(name, builder, guarantee=guarantee, timeout="1 hour")  # type: ignore[arg-type]
        app.view(f"{name}_by_key", made[name].group_by("k").agg(rows=ps.count(), n=ps.max("n"), s=ps.max("s")))
    return app, events, made


def arm(step: str, passes: int, stream: str) -> None:
    """Makes the process, or a worker of it, die at a fault point."""
    if step == WORKER:
        (Path(sys.argv[1]) / "KILL").touch()
    elif step == BETWEEN:
        left, ended = {"passes": passes}, SparkRunner._ended

        def dying(runner: SparkRunner, *rest: Any) -> Any:
            left["passes"] -= 1
            if left["passes"] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return ended(runner, *rest)

        SparkRunner._ended = dying  # type: ignore[method-assign]
    else:
        armed(step, passes, stream)


armed = process_app.arm
process_app.arm = arm

if __name__ == "__main__":
    process_app.main(define, tick=0.2, rounds=3)
