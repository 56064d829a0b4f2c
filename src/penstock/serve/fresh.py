"""Read your own writes: waits until the store has committed the events that a token stands for."""

from __future__ import annotations

import json
import time
from typing import Final

from penstock.serve.askers import Askers, Question
from penstock.serve.errors import Answered
from penstock.serve.ingest import Doors, Token
from penstock.serve.pulse import Pulse
from penstock.serve.views import not_there

_PROGRESS: Final = "SELECT offsets FROM __progress"


class Fresh:
    """Knows which segments of each inbox are committed: an epoch's offsets name the last one that it read."""

    def __init__(self, askers: Askers, pulse: Pulse, doors: Doors) -> None:
        self._askers, self._pulse, self._doors = askers, pulse, doors
        self._reached: dict[str, int] = {}

    async def wait(self, after: str, seconds: float) -> None:
        """Waits until all views contain the events of a token; an error when the time is over."""
        token, until = Token.read(after), time.monotonic() + seconds
        while self._reached.get(token.stream, -1) < token.number:
            await self._look()
            left = until - time.monotonic()
            if self._reached.get(token.stream, -1) >= token.number:
                return
            if token.stream not in self._doors.declared():
                raise not_there("stream that takes events", token.stream, self._doors.declared())
            if left <= 0:
                raise Answered(
                    504, f"the events of the token are not committed after {seconds:g} s",
                    detail=f"the stream '{token.stream}' is at {max(0, self._reached.get(token.stream, 0))} of "
                    f"{token.number}",
                    hint="ask again with the same token; is the app running?", retry=1,
                )  # fmt: skip
            await self._pulse.wait(min(left, 0.5))

    async def _look(self) -> None:
        (progress,) = await self._askers.own(Question(_PROGRESS))
        streams, reached = self._doors.streams(), {}  # type: tuple[dict[str, str], dict[str, int]]
        for (offsets,) in progress.rows:
            if '"inbox"' in offsets:
                position = json.loads(offsets)
                stream = streams.get(position["inbox"], position["inbox"])
                reached[stream] = max(reached.get(stream, 0), int(position["number"]))
        self._reached = reached
