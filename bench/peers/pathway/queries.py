"""Many queries on one stream: each counts a thousandth of the events in windows of ten seconds."""

import os
from datetime import timedelta

import pathway as pw
from reading import FORMAT, events, run


class Event(pw.Schema):
    key: str
    v: int
    at: str


def query(events, number):
    """One of them."""
    of_query = events.filter(pw.this.v == number)
    windows = of_query.windowby(pw.this.at, window=pw.temporal.tumbling(duration=timedelta(seconds=10)))
    return windows.reduce(
        query=number, start=pw.this._pw_window_start, n=pw.reducers.count(), last=pw.reducers.max(pw.this.key)
    )


read = events(Event)
timed = read.select(pw.this.key, pw.this.v, at=pw.this.at.dt.strptime(FORMAT))
answers = [query(timed, number) for number in range(int(os.environ["PEERS_QUERIES"]))]
run(read, pw.Table.concat_reindex(*answers), ["query", "start", "n", "last"])
