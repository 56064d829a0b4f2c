"""Streams that a loop makes: what its keys show, change by change."""

from __future__ import annotations

from datetime import timedelta

from penstock.model.loops import SIGN, FrameLoop, Loop, Until, iteration
from penstock.model.stream import Flow, Stream, stream
from penstock.runtime.derived.loops.source import LoopSource


def loop_stream(
    name: str,
    flow: Flow,
    body: Loop | FrameLoop | type[Loop],
    *,
    until: Until | None = None,
    max_rounds: int | None = None,
    keep: str | timedelta | None = None,
) -> Stream:
    """A stream of this name with the output of a loop over the events of a flow: what its keys show, change by change.

    In each epoch keys send messages to one another, round by round, until none is sent, or until `until` says so
    of a round (`penstock.model.loops.Round`). An epoch that needs more than `max_rounds` goes wrong: the events
    that make it so become dead letters. Rows have a `sign`: what was shown before is retracted.
    """
    loop = iteration(flow, body, max_rounds, until)
    return stream(name, LoopSource(loop), schema=loop.schema, sign=SIGN, keep=keep)
