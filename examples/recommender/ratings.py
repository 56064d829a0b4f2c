"""Twenty days of ratings of songs, as files of JSON lines in the directory `ratings`, one for each six hours.

    python examples/recommender/ratings.py [DIRECTORY] [--a-day 800]

Songs have a genre, and people like some genres and dislike others. On the thirteenth day all that changes at once.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl

START = datetime(2024, 11, 1, tzinfo=UTC)
DAYS, CHANGE = 20, 12
CHANGED = START + timedelta(days=CHANGE)
PEOPLE, SONGS, GENRES = 80, 30, 3
DAY = 86_400_000  # milliseconds


def ratings(a_day: int = 800, seed: int = 1) -> pl.DataFrame:
    """The ratings in the order of their times: a person, a song, one to five stars."""
    chance = np.random.default_rng(seed)
    count = DAYS * a_day
    at = np.sort(chance.random(count) * DAYS * DAY).astype(np.int64)
    person, song = chance.integers(PEOPLE, size=count), chance.integers(SONGS, size=count)
    likes, good = chance.choice([-1.2, 1.2], (PEOPLE, GENRES)), chance.normal(0, 0.3, SONGS)
    taste = np.where((at < CHANGE * DAY)[:, None], likes[person], -likes[person])[np.arange(count), song % GENRES]
    stars = np.clip(3 + taste + good[song] + chance.normal(0, 0.5, count), 1, 5)
    return pl.DataFrame(
        {
            "person": np.char.add("p", person.astype(str)),
            "song": np.char.add("s", song.astype(str)),
            "stars": stars.round(1),
            "at": at,
        }
    ).with_columns((pl.lit(START) + pl.duration(milliseconds="at")).alias("at"))


def files(rated: pl.DataFrame) -> Iterator[tuple[datetime, pl.DataFrame]]:
    """The ratings of each six hours, and when those are over."""
    for (start,), rows in rated.group_by(pl.col("at").dt.truncate("6h"), maintain_order=True):
        assert isinstance(start, datetime)
        yield start + timedelta(hours=6), rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", default=".", type=Path)
    parser.add_argument("--a-day", type=int, default=800)
    options = parser.parse_args()
    folder = options.directory / "ratings"
    folder.mkdir(parents=True, exist_ok=True)
    for until, rows in files(ratings(options.a_day)):
        shown = rows.with_columns(pl.col("at").dt.strftime("%Y-%m-%dT%H:%M:%S%.3fZ"))
        path = folder / f"{until:%Y-%m-%dT%H}.json"
        shown.write_ndjson(path)
        os.utime(path, (until.timestamp(), until.timestamp()))  # files are read in the order of their times


if __name__ == "__main__":
    main()
