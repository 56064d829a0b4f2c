"""The auctions with the most bids of ten seconds, every two seconds, with ties."""

from datetime import timedelta

from bytewax import operators as op
from bytewax.dataflow import Dataflow
from bytewax.operators.windowing import SlidingWindower, TumblingWindower, fold_window
from nexmark.bids import bids, start, time_of
from reading import BEGIN, clock, write

SLIDE = timedelta(seconds=2)


def counted(item):
    auction, (window, n) = item
    return "all", (n, auction, start(window, SLIDE))


def most(best, count):
    if not best or count[0] > best[0][0]:
        return [count]
    return [*best, count] if count[0] == best[0][0] else best


def rows(item):
    _, (_, best) = item
    return [("0", f"{begin:%Y-%m-%d %H:%M:%S},{n},{auction}") for n, auction, begin in best]


def merged(a, b):
    for count in b:
        a = most(a, count)
    return a


flow = Dataflow("q5")
windower = SlidingWindower(length=timedelta(seconds=10), offset=SLIDE, align_to=BEGIN)
keyed = op.map("key", bids(flow), lambda item: (str(item[0]["auction"]), (item[1],)))
counts = fold_window("count", keyed, clock(time_of), windower, lambda: 0, lambda n, _: n + 1, lambda a, b: a + b, False)
highest = fold_window(
    "most", op.map("counts", counts.down, counted), clock(time_of), TumblingWindower(length=SLIDE, align_to=BEGIN),
    list, most, merged, False,
)  # fmt: skip
write(op.flat_map("rows", highest.down, rows))
