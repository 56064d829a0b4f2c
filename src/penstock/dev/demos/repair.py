"""Human error: a deployed view counts each play twice; it is noticed and replaced, and every number is right.

>>> app().views["by_song"] == app(wrong=False).views["by_song"]
False
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.app import App
from penstock.model.aggregates import count
from penstock.model.aggregates import sum as total
from penstock.model.watermarks import bounded
from penstock.model.windows import fixed
from penstock.sources import generator

SONGS = np.array(["Anthem", "Ballad", "Canon", "Dirge", "Etude", "Fugue", "Gavotte", "Hymn"])
_SHARES = np.cumsum(1 / np.arange(1, len(SONGS) + 1)) / (1 / np.arange(1, len(SONGS) + 1)).sum()

#: What was meant to be deployed.
RIGHT = """
CREATE OR REPLACE CONTINUOUS VIEW by_song AS
  SELECT song, window_start, window_end, count(*) AS plays
  FROM TUMBLE(plays, at, INTERVAL 10 SECONDS)
  GROUP BY song, window_start, window_end
"""


def plays(numbers: np.ndarray, times: np.ndarray, chance: Any) -> dict[str, object]:
    """The plays with these numbers and times: few songs are played often."""
    return {"id": numbers, "song": SONGS[np.searchsorted(_SHARES, chance.uniform())], "at": times}


def app(rate: int = 2000, seed: int = 1, wrong: bool = True) -> App:
    """The app: plays by song. `wrong` has the bug."""
    repair = App("repair")
    log = generator(plays, rate=rate, seed=seed)
    stream = repair.stream(
        "plays", log, schema="id bigint, song string, at timestamp", event_time="at", watermark=bounded("2 seconds")
    )
    counted = total("CASE WHEN id IS NULL THEN 1 ELSE 2 END") if wrong else count()
    repair.view("by_song", stream.group_by("song").window(fixed("10 seconds")).agg(plays=counted))
    return repair
