"""A recommender that learns with each epoch, beside one that was trained once: what happens when tastes change.

python ratings.py                      # twenty days of made-up ratings
penstock run app.py --until-caught-up
penstock query "SELECT window_start, error FROM live_error ORDER BY 1"
penstock query "SELECT window_start, error FROM frozen_error ORDER BY 1"
"""

from __future__ import annotations

import penstock as ps
from penstock.learning import Factors

TRAINED = "2024-11-09"

app = ps.App("recommender")

ratings = app.stream(
    "ratings",
    ps.files("ratings", files_per_epoch=1),
    schema="person string, song string, stars double, at timestamp",
    event_time="at",
    watermark=ps.bounded("1 minute"),
    max_ahead=None,
)

taste = Factors("person", "song", "stars", factors=4, rate=0.2)

for name, train_when in (("live", None), ("frozen", f"at < TIMESTAMP '{TRAINED} 00:00:00'")):
    predicted = app.learn(
        name,
        ratings,
        taste,
        give=("person", "song", "stars", "at"),
        by="person",
        train_when=train_when,
        event_time="at",
        watermark=ps.bounded("1 minute"),
        max_ahead=None,
        partitions=2,
    )
    error = predicted.group_by().window(ps.fixed("1 day")).agg(ratings=ps.count(), error=ps.avg("loss"))
    app.view(f"{name}_error", error)
