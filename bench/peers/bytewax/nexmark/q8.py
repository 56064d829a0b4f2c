"""Who is new and sells in the same ten seconds: in one window both are looked for together, without a join."""

from bytewax import operators as op
from bytewax.dataflow import Dataflow
from nexmark.days import by_day
from nexmark.events import by_key, events
from reading import LENGTH, write


def add(known, item):
    event, _ = item
    return merged(known, (event["name"], False) if event["kind"] == "person" else ("", True))


def merged(a, b):
    return a[0] or b[0], a[1] or b[1]


def row(item):
    person, start, (name, sells) = item
    return (person, f"{start:%Y-%m-%d %H:%M:%S},{person},{name}") if name and sells else None


flow = Dataflow("q8")
stream = events(flow)
both = op.merge("both", by_key("persons", stream, "person", "id"), by_key("auctions", stream, "auction", "seller"))
timed = op.map_value("time", both, lambda event: (event, event["at"]))
windows = by_day("new", timed, lambda: ("", False), add, merged, LENGTH)
write(op.filter_map("row", windows, row))
