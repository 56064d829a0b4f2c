"""Words of lines, counted by hour."""

from datetime import datetime, timedelta

from bytewax import operators as op
from bytewax.dataflow import Dataflow
from bytewax.operators.windowing import TumblingWindower, fold_window
from reading import BEGIN, clock, lines, read, rows_of_windows, write

HOUR = timedelta(hours=1)


def words(line):
    event = read(line)
    time = datetime.fromisoformat(event["at"])
    return [(word, time) for word in event["line"].split(" ")]


flow = Dataflow("words")
found = op.flat_map("split", lines(flow), words)
counts = fold_window(
    "count", found, clock(lambda time: time), TumblingWindower(length=HOUR, align_to=BEGIN),
    lambda: (0,), lambda n, _: (n[0] + 1,), lambda a, b: (a[0] + b[0],), False,
)  # fmt: skip
write(rows_of_windows(counts, HOUR))
