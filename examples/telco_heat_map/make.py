"""Makes up subscribers and calls: one in ten subscribers is a premium user, some only for a while.

python examples/telco_heat_map/make.py FOLDER [SUBSCRIBERS [CALLS]]
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

START = 1_714_564_800_000_000  # 2024-05-01 12:00 UTC, in microseconds
MINUTE = 60_000_000
_TIME = pl.Datetime("us", "UTC")


def made_subscribers(count: int, seed: int = 1) -> pl.DataFrame:
    """The table: a row for each subscriber, and one more for those who are no premium users any more from 12:10 on."""
    chance = np.random.default_rng(seed)
    premium = chance.random(count) < 0.1
    table = pl.DataFrame(
        {
            "id": np.arange(count),
            "tier": np.where(premium, "premium", "plain"),
            "since": np.full(count, START - 86_400_000_000),
        }
    )
    left = np.flatnonzero(premium & (chance.random(count) < 0.2))
    over = pl.DataFrame(
        {"id": left, "tier": np.full(len(left), "plain"), "since": np.full(len(left), START + 10 * MINUTE)}
    )
    return pl.concat([table, over]).with_columns(pl.col("since").cast(_TIME))


def made_calls(subscribers: int, count: int, files: int, seed: int = 2) -> Iterator[pl.DataFrame]:
    """The calls of twenty minutes, file by file."""
    chance = np.random.default_rng(seed)
    each = count // files
    for number in range(files):
        x, y = chance.integers(0, 40, each), chance.integers(0, 25, each)
        hot = np.exp(-((x - 28) ** 2 + (y - 9) ** 2) / 30)  # a tower that does badly
        yield pl.DataFrame(
            {
                "subscriber": chance.integers(0, subscribers, each),
                "x": x,
                "y": y,
                "dropped": chance.random(each) < 0.02 + 0.6 * hot,
                "at": START + (number * each + np.arange(each)) * 20 * MINUTE // count,
            }
        ).with_columns(pl.col("at").cast(_TIME))


def make(folder: Path, subscribers: int = 2_000_000, calls: int = 200_000, files: int = 20) -> None:
    """Writes both below a folder."""
    for name in ("subscribers", "calls"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    made_subscribers(subscribers).write_parquet(folder / "subscribers" / "all.parquet")
    for number, frame in enumerate(made_calls(subscribers, calls, files)):
        hidden = folder / "calls" / f".{number:04}.json"
        frame.with_columns(pl.col("at").dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")).write_ndjson(hidden)
        os.utime(hidden, (number, number))  # files are read in the order of their times
        hidden.rename(folder / "calls" / f"{number:04}.json")


if __name__ == "__main__":
    make(Path(sys.argv[1]), *map(int, sys.argv[2:]))
