"""Counts and sums by key in windows of ten seconds."""

from datetime import datetime

from bytewax import operators as op
from bytewax.dataflow import Dataflow
from bytewax.operators.windowing import fold_window
from reading import clock, lines, read, rows_of_windows, ten_seconds, write


def parsed(line):
    event = read(line)
    return event["key"], event


def add(sums, event):
    return (sums[0] + 1, sums[1] + event["v"])


flow = Dataflow("keys")
events = op.map("parse", lines(flow), parsed)
sums = fold_window(
    "sum",
    events,
    clock(lambda event: datetime.fromisoformat(event["at"])),
    ten_seconds(),
    lambda: (0, 0),
    add,
    lambda a, b: (a[0] + b[0], a[1] + b[1]),
    False,
)
write(rows_of_windows(sums))
