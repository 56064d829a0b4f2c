"""Moves watermarks: those of sources by what they show, and those of all others by what they read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from penstock.model.changes import Changes, carried
from penstock.model.stream import Stream
from penstock.model.time import BEGINNING, END, Instant
from penstock.model.watermarks import Carried, Observation, ViewTime
from penstock.runtime.commit.operators import OperatorRuntime
from penstock.runtime.commit.registry import Registry
from penstock.state.segment import Segment


class WatermarkMover:
    """Moves the watermarks of an engine. The caller moves them back if the commit fails."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def move(self, observed: Mapping[str, Observation], now: Instant, fixed: Mapping[str, Instant]) -> None:
        """Moves the watermarks of sources, and of all that reads nothing but sources."""
        registry = self._registry
        caught_up = {name: registry.caught_up(name) for name in registry.streams}
        for name, tracker in registry.trackers.items():
            if name in caught_up and name not in registry.operators:
                tracker.advance(
                    observed.get(name, Observation()), now=now, caught_up=caught_up[name], fixed=fixed.get(name)
                )
        read = caught_up.keys() - registry.operators.keys()
        views, operators = registry.fed.values(), registry.operators.values()
        for time in [*(view.time for view in views), *(operator.time for operator in operators)]:
            if time.trackers.keys() <= read:  # others follow what they read, after its step
                time.look(now, caught_up)
        registry.inputs.look(now, caught_up)

    def look(self, time: ViewTime, sources: Iterable[Stream], now: Instant) -> None:
        """The time of what reads views or operators follows theirs. Time that follows streams alone has moved."""
        registry = self._registry
        made = [source for source in sources if isinstance(source, Changes) or source.name in registry.operators]
        for source in made:
            if isinstance(source, Changes) and source.name in registry.trackers:
                mark = carried(source.of, registry.views[source.name].time.watermark)
                registry.trackers[source.name].advance(Observation(), now=now, fixed=mark)
        if made:
            caught_up = {name: name in registry.views or registry.caught_up(name) for name in time.trackers}
            time.look(now, caught_up)

    def follow_past(self, operator: OperatorRuntime, marks: Mapping[str, Instant]) -> None:
        """The time of an operator that reads the past: `marks` are the watermarks that streams had then."""
        trackers = operator.time.trackers
        times = [marks.get(name, tracker.watermark) for name, tracker in trackers.items()]
        operator.time.watermark = max(operator.time.watermark, min(times, default=BEGINNING))

    def move_output(
        self, operator: OperatorRuntime, observed: Observation, added: Sequence[Segment], now: Instant
    ) -> None:
        """The watermark of what an operator gives, after its step, which has added segments."""
        registry = self._registry
        tracker = registry.trackers.get(operator.name)
        if tracker is None:
            return
        mark = registry.operator_steps.watermark(operator, added)
        by_rows = not isinstance(tracker.definition, Carried) and mark < END
        caught_up = registry.caught_up(operator.name)
        tracker.advance(observed, now=now, caught_up=caught_up, fixed=None if by_rows else mark)
