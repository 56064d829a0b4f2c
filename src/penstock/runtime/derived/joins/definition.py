"""Streams that a join of two streams makes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from penstock.errors import unknown
from penstock.model.join import StreamJoin, stream_join
from penstock.model.stream import Flow, Stream, stream
from penstock.model.watermarks import Watermark
from penstock.model.windows import Window
from penstock.runtime.derived.joins.source import DISK, MEMORY, JoinSource


def join_stream(
    name: str,
    left: Flow,
    right: Flow,
    *,
    on: str | Sequence[str],
    within: tuple[str, str] | None = None,
    window: Window | None = None,
    how: str = "inner",
    prefix: str = "",
    state: str = DISK,
    event_time: str | None = None,
    watermark: Watermark | None = None,
    max_ahead: str | timedelta | None = "1 day",
    keep: str | timedelta | None = None,
) -> Stream:
    """Two streams joined by Spark, as a stream of this name: `on="ad = ad_id", within=("-1 hour", "0 seconds")`.

    `within` bounds the right one's time less the left one's; or both must fall into the same `window`. Columns of
    the right that the left has too get names that begin with `prefix`. `how`: inner, left, right or full.
    What waits for a partner lies on disk (`state`) or, as long as it fits, in memory, which is faster.
    `event_time` and `watermark` are those of the rows that come out.
    """
    join = stream_join(left, right, on, within, window, how, prefix)
    return joined_stream(
        name, join, state=state, event_time=event_time, watermark=watermark, max_ahead=max_ahead, keep=keep
    )


def joined_stream(
    name: str,
    join: StreamJoin,
    *,
    state: str = DISK,
    event_time: str | None = None,
    watermark: Watermark | None = None,
    max_ahead: str | timedelta | None = "1 day",
    keep: str | timedelta | None = None,
) -> Stream:
    """What a join gives that was made elsewhere, as a stream of this name."""
    if state not in (DISK, MEMORY):
        raise unknown("place for the state of a join", state, [DISK, MEMORY])
    return stream(
        name, JoinSource(join, state), schema=join.schema, event_time=event_time, watermark=watermark,
        max_ahead=max_ahead, keep=keep,
    )  # fmt: skip
