"""Makes up posts: few people and few tags are named very often, and most hardly ever.

    python examples/mentions/posts.py [POSTS]

writes some into `examples/mentions/posts`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl


def posts(count: int, seed: int = 0, people: int = 200_000, tags: int = 2_000) -> pl.DataFrame:
    """Posts of random people. Half of them mention someone, every tenth two; two of three have a tag."""
    chance = np.random.default_rng(seed)
    writers = chance.integers(0, people, count)
    named = np.minimum(chance.zipf(1.3, (count, 2)) - 1, people - 1)
    how_many = chance.choice([0, 1, 2], count, p=[0.5, 0.4, 0.1])
    tagged = np.minimum(chance.zipf(1.3, count) - 1, tags - 1)
    has_tag = chance.random(count) < 2 / 3
    frame = pl.DataFrame({"w": writers, "m": named, "h": how_many, "t": tagged, "has": has_tag})
    name = pl.format("u{}", pl.element())
    return frame.select(
        user=pl.format("u{}", "w"),
        mentions=pl.col("m").arr.to_list().list.head("h").list.eval(name),
        tags=pl.when("has").then(pl.concat_list(pl.format("t{}", "t"))).otherwise(pl.lit([], pl.List(pl.String))),
    )


def main() -> None:
    folder = Path(__file__).parent / "posts"
    folder.mkdir(exist_ok=True)
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    posts(count, seed=len(list(folder.iterdir()))).write_parquet(folder / f"{len(list(folder.iterdir())):06}.parquet")


if __name__ == "__main__":
    main()
