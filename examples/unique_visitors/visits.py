"""Four days of page views of a web site, as files of JSON lines in the directory `page_views`.

    python examples/unique_visitors/visits.py [DIRECTORY] [--days 4] [--an-hour 2000]

People sleep at night and come back; one view in a hundred comes up to a day late, and one in two hundred comes twice.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl

START = datetime(2024, 5, 1, tzinfo=UTC)
HOUR = 3_600_000  # milliseconds
URLS = ["/home", "/news", "/about"]


def page_views(days: int = 4, an_hour: int = 2_000, seed: int = 1) -> pl.DataFrame:
    """The page views in the order in which they arrive; `arrives` says when."""
    chance = np.random.default_rng(seed)
    count = days * 24 * an_hour
    hours = np.arange(days * 24)
    busy = 1.1 + np.sin((hours % 24 - 9) / 24 * 2 * np.pi)
    at = (chance.choice(hours, count, p=busy / busy.sum()) + chance.random(count)) * HOUR
    late = np.where(chance.random(count) < 0.01, chance.random(count) * 24 * HOUR, chance.exponential(60_000, count))
    views = pl.DataFrame(
        {
            "id": np.char.add("v", np.arange(count).astype(str)),
            "url": chance.choice(URLS, count, p=[0.6, 0.3, 0.1]),
            "user": np.char.add("u", (chance.random(count) ** 2 * 10 * an_hour).astype(np.int64).astype(str)),
            "at": at.astype(np.int64),
            "arrives": (at + late).astype(np.int64),
        }
    )
    again = views.sample(count // 200, seed=seed).with_columns(pl.col("arrives") + 5_000)
    begin = int(START.timestamp() * 1000)
    moment = (pl.col("at", "arrives") + begin).cast(pl.Datetime("ms", "UTC"))
    return pl.concat([views, again]).sort("arrives").with_columns(moment)


def files(views: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """What arrives in each hour."""
    for _, rows in views.group_by(pl.col("arrives").dt.truncate("1h").alias("hour"), maintain_order=True):
        yield rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes made-up page views as files of JSON lines.")
    parser.add_argument("directory", type=Path, nargs="?", default=Path())
    parser.add_argument("--days", type=int, default=4)
    parser.add_argument("--an-hour", type=int, default=2_000)
    options = parser.parse_args()
    folder = options.directory / "page_views"
    folder.mkdir(parents=True, exist_ok=True)
    views = page_views(options.days, options.an_hour)
    for number, rows in enumerate(files(views)):
        hidden = folder / f".{number:04}.json"
        times = pl.col("at").dt.strftime("%Y-%m-%dT%H:%M:%S%.3fZ")
        rows.drop("arrives").with_columns(times).write_ndjson(hidden)
        os.utime(hidden, (number, number))  # files are read in the order of their times
        hidden.rename(folder / f"{number:04}.json")
    print(f"{views.height:,} page views in {folder}")


if __name__ == "__main__":
    main()
