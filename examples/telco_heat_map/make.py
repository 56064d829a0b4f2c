"""Makes up subscribers and calls: one in ten subscribers is a premium user, some only for a while."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl

START = 1_714_564_800_000_000  # 2024-05-01 12:00 UTC, in microseconds
MINUTE = 60_000_000


def make(folder: Path, subscribers: int = 2_000_000, calls: int = 200_000, files: int = 20, seed: int = 1) -> None:
    """Writes both below a folder."""
    chance = np.random.default_rng(seed)
    premium = chance.random(subscribers) < 0.1
    table = pl.DataFrame(
        {
            "id": np.arange(subscribers),
            "tier": np.where(premium, "premium", "plain"),
            "since": np.full(subscribers, START - 86_400_000_000),
        }
    )
    left = np.flatnonzero(premium & (chance.random(subscribers) < 0.2))  # no premium users any more from 12:10 on
    over = pl.DataFrame(
        {"id": left, "tier": np.full(len(left), "plain"), "since": np.full(len(left), START + 10 * MINUTE)}
    )
    (folder / "subscribers").mkdir(parents=True, exist_ok=True)
    (folder / "calls").mkdir(parents=True, exist_ok=True)
    time = pl.col("since").cast(pl.Datetime("us", "UTC"))
    pl.concat([table, over]).with_columns(time).write_parquet(folder / "subscribers" / "all.parquet")
    each = calls // files
    for number in range(files):
        x, y = chance.integers(0, 40, each), chance.integers(0, 25, each)
        hot = np.exp(-((x - 28) ** 2 + (y - 9) ** 2) / 30)  # a tower that does badly
        frame = pl.DataFrame(
            {
                "subscriber": chance.integers(0, subscribers, each),
                "x": x,
                "y": y,
                "dropped": chance.random(each) < 0.02 + 0.6 * hot,
                "at": START + (number * each + np.arange(each)) * 20 * MINUTE // calls,
            }
        )
        at = pl.col("at").cast(pl.Datetime("us")).dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
        hidden = folder / "calls" / f".{number:04}.json"
        frame.with_columns(at).write_ndjson(hidden)
        hidden.rename(folder / "calls" / f"{number:04}.json")


if __name__ == "__main__":
    make(Path(__file__).parent / "data", *map(int, sys.argv[1:]))
