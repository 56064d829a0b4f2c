"""Counts and sums by key in windows of ten seconds."""

from datetime import timedelta

import pathway as pw
from reading import FORMAT, events, run


class Event(pw.Schema):
    key: str
    v: int
    at: str


read = events(Event)
timed = read.select(pw.this.key, pw.this.v, at=pw.this.at.dt.strptime(FORMAT))
windows = timed.windowby(pw.this.at, window=pw.temporal.tumbling(duration=timedelta(seconds=10)), instance=pw.this.key)
sums = windows.reduce(
    key=pw.this._pw_instance, start=pw.this._pw_window_start, n=pw.reducers.count(), total=pw.reducers.sum(pw.this.v)
)
run(read, sums, ["key", "start", "n", "total"])
