"""What every flow has: its source of lines, its windows, and its sink of lines of CSV."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
from bytewax import operators as op
from bytewax.connectors.files import DirSink, DirSource
from bytewax.operators.windowing import EventClock, TumblingWindower

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
LENGTH = timedelta(seconds=10)
read = orjson.loads


def lines(flow):
    """Lines of all files of the input."""
    return op.input("lines", flow, DirSource(Path(os.environ["PEERS_INPUT"]), glob_pat="*.json", batch_size=1000))


def clock(time):
    """The time of an item.

    The source reads all files at once, each a bit of the past: windows wait for the slowest of them. No window is due
    by the system's clock: without `to_system_utc` every key would be asked after each batch, since the events are old.
    """
    return EventClock(time, timedelta(hours=1), to_system_utc=lambda _: None)


def ten_seconds():
    return TumblingWindower(length=LENGTH, align_to=BEGIN)


def rows_of_windows(windows, length=LENGTH, name="row"):
    """Lines of CSV: the key, the window's start and its values."""

    def row(item):
        key, (window, values) = item
        start = BEGIN + window * length
        return key, f"{key},{start:%Y-%m-%d %H:%M:%S},{','.join(map(str, values))}"

    return op.map(name, windows.down, row)


def write(rows):
    """A file for each worker."""
    folder = Path(os.environ["PEERS_OUTPUT"], "answer")
    folder.mkdir(exist_ok=True)
    op.output("write", rows, DirSink(folder, int(os.environ["PEERS_CORES"]), lambda number, _: f"{number}.csv"))
