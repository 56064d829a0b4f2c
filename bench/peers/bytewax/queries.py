"""Many queries on one stream: each counts a thousandth of the events in windows of ten seconds."""

import os
from datetime import datetime

from bytewax import operators as op
from bytewax.dataflow import Dataflow
from bytewax.operators.windowing import fold_window
from reading import clock, lines, read, rows_of_windows, ten_seconds, write


def parsed(line):
    event = read(line)
    return event["v"], event["key"], datetime.fromisoformat(event["at"])


def query(events, number):
    """One of them."""
    name = str(number)
    keyed = op.filter_map(f"where {name}", events, lambda event: (name, event) if event[0] == number else None)
    windows = fold_window(
        f"count {name}", keyed, clock(lambda event: event[2]), ten_seconds(), lambda: (0, ""),
        lambda sums, event: (sums[0] + 1, max(sums[1], event[1])),
        lambda a, b: (a[0] + b[0], max(a[1], b[1])), False,
    )  # fmt: skip
    return rows_of_windows(windows, name=f"row {name}")


flow = Dataflow("queries")
events = op.map("parse", lines(flow), parsed)
write(op.merge("answers", *(query(events, number) for number in range(int(os.environ["PEERS_QUERIES"])))))
