"""Half a day of a music service, as files of Parquet in the directory `plays`.

    python examples/play_counts/plays.py [DIRECTORY] [--hours 12] [--an-hour 20000]

Few songs are played often. Most plays arrive within a minute. One in fifty was made offline and arrives when its
listener is back, up to three days later.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl

START = datetime(2024, 5, 3, 12, tzinfo=UTC)
HOUR = 3_600_000  # milliseconds
SONGS = ["Blue", "Red", "Green", "Amber", "Ochre", "Violet", "Teal", "Ivory", "Rust", "Plum"]


def plays(hours: int = 12, an_hour: int = 20_000, seed: int = 1) -> pl.DataFrame:
    """The plays in the order in which they arrive; `arrives` says when."""
    chance = np.random.default_rng(seed)
    count = hours * an_hour
    at = chance.random(count) * hours * HOUR
    away = chance.random(count) < 0.02
    delay = np.where(away, chance.random(count) ** 3 * 72 * HOUR, chance.exponential(15_000, count))
    weights = 1 / np.arange(1, len(SONGS) + 1)
    begin = int(START.timestamp() * 1000)
    events = pl.DataFrame(
        {
            "song": chance.choice(SONGS, count, p=weights / weights.sum()),
            "listener": np.char.add("l", chance.integers(0, an_hour, count).astype(str)),
            "seconds": (chance.beta(1.2, 0.8, count) * 240).astype(np.int32),
            "at": begin + at.astype(np.int64),
            "arrives": begin + (at + delay).astype(np.int64),
        }
    )
    return events.sort("arrives").with_columns(pl.col("at", "arrives").cast(pl.Datetime("ms", "UTC")))


def files(events: pl.DataFrame) -> Iterator[tuple[datetime, pl.DataFrame]]:
    """What arrives in each quarter of an hour, and when that ends."""
    until = pl.col("arrives").dt.truncate("15m").dt.offset_by("15m").alias("until")
    for (end,), rows in events.group_by(until, maintain_order=True):
        yield end, rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes made-up plays as files of Parquet.")
    parser.add_argument("directory", type=Path, nargs="?", default=Path())
    parser.add_argument("--hours", type=int, default=12)
    parser.add_argument("--an-hour", type=int, default=20_000)
    options = parser.parse_args()
    folder = options.directory / "plays"
    folder.mkdir(parents=True, exist_ok=True)
    events = plays(options.hours, options.an_hour)
    for number, (_, rows) in enumerate(files(events)):
        hidden = folder / f".{number:04}.parquet"
        rows.drop("arrives").with_columns(pl.col("at").cast(pl.Datetime("us", "UTC"))).write_parquet(hidden)
        os.utime(hidden, (number, number))  # files are read in the order of their times
        hidden.rename(folder / f"{number:04}.parquet")
    print(f"{events.height:,} plays in {folder}")


if __name__ == "__main__":
    main()
