"""Words of lines, counted by hour."""

from datetime import timedelta

import pathway as pw
from reading import FORMAT, events, run


class Line(pw.Schema):
    line: str
    at: str


@pw.udf(deterministic=True)
def split(line: str) -> list[str]:
    return line.split(" ")


read = events(Line)
words = read.select(word=split(pw.this.line), at=pw.this.at.dt.strptime(FORMAT)).flatten(pw.this.word)
windows = words.windowby(pw.this.at, window=pw.temporal.tumbling(duration=timedelta(hours=1)), instance=pw.this.word)
counts = windows.reduce(word=pw.this._pw_instance, start=pw.this._pw_window_start, n=pw.reducers.count())
run(read, counts, ["word", "start", "n"])
