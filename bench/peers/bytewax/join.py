"""Clicks with the impressions of the minute before them, counted by place in windows of ten seconds."""

from datetime import datetime, timedelta

from bytewax import operators as op
from bytewax.dataflow import Dataflow
from bytewax.operators.windowing import fold_window
from reading import clock, lines, read, rows_of_windows, ten_seconds, write

MINUTE = timedelta(minutes=1)


def parsed(line):
    event = read(line)
    time = datetime.fromisoformat(event["at"])
    return str(event["ad"]), (event["place"] if event["kind"] == "shown" else None, time)


def pair(known, event):
    """The impression of an ad, the clicks that came before it, and what an event finds."""
    shown, waiting = known or (None, [])
    place, time = event
    if place is not None:
        found = [(place, at) for at in waiting if time <= at <= time + MINUTE]
        return ((place, time), []), found
    if shown is None:
        return (None, [*waiting, time]), []
    return known, [(shown[0], time)] if shown[1] <= time <= shown[1] + MINUTE else []


flow = Dataflow("join")
# Its own joins have no bound in time between the sides, so a step with state makes the pairs.
pairs = op.stateful_map("pair", op.map("parse", lines(flow), parsed), pair)
found = op.flat_map("pairs", pairs, lambda item: [(str(place), time) for place, time in item[1]])
counts = fold_window(
    "count", found, clock(lambda time: time), ten_seconds(),
    lambda: (0,), lambda n, _: (n[0] + 1,), lambda a, b: (a[0] + b[0],), False,
)  # fmt: skip
write(rows_of_windows(counts))
