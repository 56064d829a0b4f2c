"""Which tags do people post about right now? The last minute, every ten seconds, from two thousand posts a second.

Few tags are loud and many are quiet, and which ones are loud drifts: every twelve seconds the next one takes the lead.
Posts arrive out of order by up to three seconds; two in a thousand are more than a minute late.

>>> trending = app().views["trending"]
>>> trending.columns
('tag', 'window_start', 'window_end', 'posts', 'people', 'final')
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.app import App
from penstock.model.aggregates import approx_distinct, count
from penstock.model.time import SECOND
from penstock.model.triggers import every, on_time
from penstock.model.watermarks import bounded
from penstock.model.windows import sliding
from penstock.sources import generator

TAGS = np.array(
    [
        *("rain", "football", "election", "recipes", "chess", "comet", "festival", "traffic", "jazz", "tennis"),
        *("markets", "gardening", "opera", "cycling", "robots", "glacier", "books", "surfing", "pottery", "volcano"),
        *("coffee", "trains", "birds", "poetry"),
    ]
)
PEOPLE = 20_000
#: How often another tag takes the lead.
DRIFT = 12 * SECOND

_WEIGHTS = 1 / np.arange(1, len(TAGS) + 1) ** 1.1
_SHARES = np.cumsum(_WEIGHTS / _WEIGHTS.sum())


def posts(numbers: np.ndarray, times: np.ndarray, chance: Any) -> dict[str, object]:
    """The posts with these numbers and times: a tag by Zipf's law, its place in the ranking set by the time."""
    rank = np.searchsorted(_SHARES, chance.uniform())
    shift = np.floor(times / DRIFT + chance.uniform()).astype(np.int64)
    user = (PEOPLE * chance.uniform() ** 3).astype(np.int64)
    return {"id": numbers, "user": user, "tag": TAGS[(rank + shift) % len(TAGS)], "at": times}


def app(rate: int = 2000, seed: int = 1) -> App:
    """The app: posts, what is trending, and the totals."""
    trending = App("trending")
    stream = trending.stream(
        "posts",
        generator(posts, rate=rate, seed=seed, disorder="3 seconds", late=0.002, lateness="75 seconds"),
        schema="id bigint, user bigint, tag string, at timestamp",
        event_time="at",
        watermark=bounded("4 seconds"),
    )
    trending.view(
        "trending",
        stream.group_by("tag")
        .window(sliding("1 minute", every="10 seconds"))
        .agg(posts=count(), people=approx_distinct("user"))
        .trigger(on_time(early=every("3 seconds")))
        .retracting()
        .allow_late("20 seconds"),
    )
    trending.view("totals", stream.group_by().agg(posts=count(), people=approx_distinct("user")))
    return trending
