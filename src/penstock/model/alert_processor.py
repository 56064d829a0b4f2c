"""The processor behind an alert: which windows of a key hold, and what changes when they do or no longer do.

A window *holds* while its newest pane fulfils the condition. It counts until the watermark has passed the end of the
next window. The alert of a key fires while at least one window of it holds and counts; without windows, while the
newest row of the key fulfils the condition. So an early pane can start an alert, and only time or a corrected window
can end it. This is looked at after all events of a commit, and again where time has passed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from penstock.model.processor import Events, Processor, Timer
from penstock.model.state import map_of, value
from penstock.model.time import Duration, Instant, instant, to_datetime
from penstock.model.types import Schema

FIRING: Final = "firing"
RESOLVED: Final = "resolved"
#: The columns of an alert beside its key and the values of its view: how often it has changed, to what, and since when.
OWN: Final = Schema.parse("number bigint, state string, since timestamp, changed_at timestamp")
#: The window that began or ended it, where the view has windows.
BOUNDS: Final = ("window_from", "window_to")
#: Whether the row of an event fulfils the condition.
HOLDS: Final = "alert_holds"
_EXPIRES: Final = "expires"
_SUFFIX: Final = "_changes"


def changes_of(alert: str) -> str:
    """The name of the stream that an alert's changes are in.

    >>> changes_of("busy"), alert_of("busy_changes")
    ('busy_changes', 'busy')
    """
    return f"{alert}{_SUFFIX}"


def alert_of(stream: str) -> str:
    """The name of the alert whose changes a stream has."""
    return stream.removesuffix(_SUFFIX)


def alert_processor(
    keys: Sequence[str],
    values: Schema,
    windows: str | None,
    step: Callable[[Instant, Instant], Duration] | None,
    when: str,
) -> type[Processor]:
    """The processor of an alert on rows with these keys and values.

    `windows` is the type of the windows' bounds, None without windows. `step` is how long after its end a window
    counts; None where windows do not end in event time: then the newest row of the key counts.
    """  # fmt: skip
    bounds = "" if windows is None else f"{BOUNDS[0]} {windows}, {BOUNDS[1]} {windows}, "
    schema, condition = f"{values.ddl()}, {bounds}{OWN.ddl()}", when
    others = [name for name in values.names if name not in keys]

    class Alert(Processor):
        """One row when the alert of a key begins to fire, and one when it is resolved."""

        output = schema
        alerts_when = condition
        number = value("bigint", default=0)
        since = value("timestamp")
        holding = map_of("bigint", "bigint")  # windows that hold, by their end: until when they count

        def on_events(self, key: Any, events: Events) -> Iterator[Mapping[str, Any]]:
            fired, cause = bool(self.holding), None
            newest = {_end(event, step is not None): event for event in events}
            for end in sorted(newest):
                event = newest[end]
                expires = end if step is None else end + step(instant(event.window_start), end)
                self.holding.pop(end, None)
                if event.change > 0 and getattr(event, HOLDS) and not self._is_over(expires):
                    self.holding[end] = expires
                    cause = event
                elif fired and event.change > 0:
                    cause = event
            for end in [end for end, expires in self.holding.items() if self._is_over(expires)]:
                del self.holding[end]
            if fired != bool(self.holding):
                yield self._changed(key, FIRING if self.holding else RESOLVED, cause)
            if step is not None and self.holding:
                self.set_timer(to_datetime(max(self.holding.values())), name=_EXPIRES)
            elif step is not None:
                self.cancel_timer(_EXPIRES)

        def _is_over(self, expires: Instant) -> bool:
            """Whether a window no longer counts."""
            return step is not None and expires <= self._there.mark

        def on_timer(self, key: Any, timer: Timer) -> Iterator[Mapping[str, Any]]:
            self.holding.clear()
            yield self._changed(key, RESOLVED, None)

        def _changed(self, key: Any, state: str, event: Any) -> Mapping[str, Any]:
            self.number += 1
            if state == FIRING:
                self.since = self.now
            row = dict(zip(keys, key if isinstance(key, tuple) else (key,), strict=False))
            row |= {name: None if event is None else getattr(event, name) for name in others}
            if windows is not None:
                row |= dict.fromkeys(BOUNDS) if event is None else _bounds(event)
            return {**row, "number": self.number, "state": state, "since": self.since, "changed_at": self.now}

    return Alert


def _end(event: Any, timed: bool) -> Instant:
    return instant(event.window_end) if timed else 0


def _bounds(event: Any) -> dict[str, Any]:
    return dict(zip(BOUNDS, (event.window_start, event.window_end), strict=True))
