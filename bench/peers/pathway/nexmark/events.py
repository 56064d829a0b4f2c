"""What the queries with joins have: persons, auctions and bids, which are in one stream."""

import os
from datetime import timedelta

import pathway as pw
from reading import FORMAT

MINUTE = pw.temporal.interval(-timedelta(minutes=1), timedelta(minutes=1))


class Event(pw.Schema):
    """Columns of all kinds; those of other kinds are empty. `id` would be a row's own name."""

    kind: str
    number: int = pw.column_definition(default_value=0)
    name: str = pw.column_definition(default_value="")
    city: str = pw.column_definition(default_value="")
    state: str = pw.column_definition(default_value="")
    item: str = pw.column_definition(default_value="")
    expires: str = pw.column_definition(default_value="")
    seller: int = pw.column_definition(default_value=0)
    category: int = pw.column_definition(default_value=0)
    auction: int = pw.column_definition(default_value=0)
    bidder: int = pw.column_definition(default_value=0)
    price: int = pw.column_definition(default_value=0)
    at: str


read = pw.io.jsonlines.read(
    os.environ["PEERS_INPUT"], schema=Event, mode="streaming", object_pattern="*.json",
    json_field_paths={"number": "/id"},
)  # fmt: skip
timed = read.with_columns(time=pw.this.at.dt.strptime(FORMAT))
persons, auctions, bids = (timed.filter(pw.this.kind == kind) for kind in ("person", "auction", "bid"))


def near(left, right, *on, within=MINUTE):
    """Pairs of events that are a minute apart at most."""
    return pw.temporal.interval_join(left, right, left.time, right.time, within, *on)
