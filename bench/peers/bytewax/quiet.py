"""How many events a key had and their sum, when it is quiet for a minute.

Timers of its own steps with state are the system clock's, so this is a window that ends when a key is quiet.
"""

from datetime import datetime, timedelta

from bytewax import operators as op
from bytewax.dataflow import Dataflow
from bytewax.operators.windowing import SessionWindower, fold_window
from reading import clock, lines, read, write


def parsed(line):
    event = read(line)
    return None if event["key"] == "end" else (event["key"], (event["v"], datetime.fromisoformat(event["at"])))


def row(item):
    key, (_, sums) = item
    return key, f"{key},{sums[0]},{sums[1]}"


flow = Dataflow("quiet")
sums = fold_window(
    "sum", op.filter_map("parse", lines(flow), parsed), clock(lambda event: event[1]),
    SessionWindower(gap=timedelta(minutes=1)), lambda: (0, 0), lambda sums, event: (sums[0] + 1, sums[1] + event[0]),
    lambda a, b: (a[0] + b[0], a[1] + b[1]), False,
)  # fmt: skip
write(op.map("row", sums.down, row))
