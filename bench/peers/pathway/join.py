"""Clicks with the impressions of the minute before them, counted by place in windows of ten seconds."""

from datetime import timedelta

import pathway as pw
from reading import FORMAT, events, run


class Event(pw.Schema):
    kind: str
    ad: int
    place: int
    at: str


read = events(Event)
timed = read.select(pw.this.kind, pw.this.ad, pw.this.place, at=pw.this.at.dt.strptime(FORMAT))
clicked, shown = timed.filter(pw.this.kind == "click"), timed.filter(pw.this.kind == "shown")
minute_before = pw.temporal.interval(-timedelta(minutes=1), timedelta(0))
pairs = pw.temporal.interval_join(clicked, shown, clicked.at, shown.at, minute_before, clicked.ad == shown.ad)
matched = pairs.select(shown.place, clicked.at)
windows = matched.windowby(
    pw.this.at, window=pw.temporal.tumbling(duration=timedelta(seconds=10)), instance=pw.this.place
)
counts = windows.reduce(place=pw.this._pw_instance, start=pw.this._pw_window_start, n=pw.reducers.count())
run(read, counts, ["place", "start", "n"])
