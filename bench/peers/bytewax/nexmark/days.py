"""Windows of a day over items with their time at the end, and the bands of prices, in cents."""

from datetime import timedelta

from bytewax import operators as op
from bytewax.operators.windowing import TumblingWindower, fold_window
from nexmark.bids import bids, start, time_of
from reading import BEGIN, clock

DAY = timedelta(days=1)


def by_day(name, items, builder, folder, merger, length=DAY):
    """A stream of a key, the start of a day and what is folded of the items of the key."""
    windower = TumblingWindower(length=length, align_to=BEGIN)
    windows = fold_window(name, items, clock(time_of), windower, builder, folder, merger, False)
    return op.map(f"{name} start", windows.down, lambda item: (item[0], start(item[1][0], length), item[1][1]))


def keyed(flow, key, *names):
    """Bids by a key that is made of a bid, with some columns and their time."""
    return op.map("key", bids(flow), lambda item: (key(item[0]), (*(item[0][name] for name in names), item[1])))


def band(price):
    """1 for low prices, 2 for those in the middle, 3 for high ones."""
    return 1 if price < 10_000 else 2 if price < 1_000_000 else 3
