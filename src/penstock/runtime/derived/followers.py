"""Which streams follow a stream, being made from it, and by which commit they have done what a commit of it brought."""

from __future__ import annotations

import time as clock_time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping

from penstock.model.stream import Stream
from penstock.runtime.derived.base import Derived, derived
from penstock.runtime.errors import RunError
from penstock.store import Reader, Store


def following(streams: Mapping[str, Stream], first: Stream, but: type[Derived]) -> tuple[Stream, ...]:
    """The streams that are made from one, each after those that it is made from; without logs of a kind.

    What is made from those does not follow either: it would be waited for by them.
    """
    followers: dict[str, Stream] = {}
    more = True
    while more:
        more = False
        for name, stream in streams.items():
            log = derived(stream)
            if log is None or name in followers or isinstance(log, but):
                continue
            inputs = {source.name for source in log.inputs}
            waits = {other for other in inputs if derived(streams[other]) is not None and _leads(streams, other, first)}
            if (first.name in inputs or waits) and waits <= followers.keys():
                followers[name] = stream
                more = True
    return tuple(followers.values())


def _leads(streams: Mapping[str, Stream], name: str, first: Stream) -> bool:
    """Whether a stream is made from another one, by whatever way."""
    log = derived(streams[name])
    return log is not None and any(
        source.name == first.name or _leads(streams, source.name, first) for source in log.inputs
    )


class Followers:
    """How far streams that are made from others have read, since a commit."""

    def __init__(self, store: Reader | Store, since: int, streams: Iterable[Stream]) -> None:
        self._streams = tuple(streams)
        names = {stream.name for stream in self._streams}
        self._read: dict[str, list[tuple[int, int]]] = {name: [] for name in names}  # through which, in which commit
        sql = (
            'SELECT "commit", stream, read_through FROM __epochs WHERE "commit" > ?1 AND read_through IS NOT NULL '
            'ORDER BY "commit"'
        )
        for number, stream, through in store.query(sql, [since]).iter_rows() if names else ():
            if stream in names:
                self._read[stream].append((through, number))

    def done(self, stream: str, commit: int) -> int | None:
        """The commit by which all of them have read a commit of a stream, and what came of it; None: not yet."""
        if not commit:
            return 0
        reach = {stream: commit}
        for made in self._streams:
            log, commits = derived(made), self._read[made.name]
            assert log is not None
            needs = max((reach[source.name] for source in log.inputs if source.name in reach), default=commit)
            place = bisect_left(commits, (needs, 0))
            if place == len(commits):
                return None
            reach[made.name] = commits[place][1]
        return max(reach.values())


def own(store: Reader | Store, stream: str, through: int) -> int:
    """The last commit of a stream up to one; 0 where it has none."""
    sql = 'SELECT coalesce(max("commit"), 0) FROM __epochs WHERE stream = ?1 AND "commit" <= ?2'
    return int(store.query(sql, [stream, through]).item())


def wait_for(is_done: Callable[[], bool], seconds: float, what: str, check: Callable[[float], object]) -> None:
    """Waits for something that a commit brings; `check` pauses, and raises where the run has failed."""
    until = clock_time.monotonic() + seconds
    while not is_done():
        if clock_time.monotonic() >= until:
            raise RunError(f"{what} after {seconds:g} s", hint="wait longer, or see whether the app falls behind")
        check(0.005)
