"""What runs the rounds of a loop for one epoch: the states that it has looked at, and the messages on their way.

A machine works alone, in one task, or its rounds are cut by key into parts for many tasks. It does not load states
itself: it lists the keys that it lacks (`unknown`), and its caller supplies their states (`know`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, TypeAlias

import polars as pl

from penstock.errors import PenstockError
from penstock.model.loops import FrameLoop, Iteration, Round
from penstock.model.loops_rounds import LoopError, did_not_end
from penstock.runtime.epoch.wire import as_json

#: Gives what is kept of keys: from a column of them to a frame with `key` and `value`, where there is something.
Fetch: TypeAlias = Callable[[pl.Series], pl.DataFrame]
#: The place of an event, by which events are in order.
PLACE: Final = ("__commit", "__stream", "__partition", "__offset")
#: An epoch with more events that a loop cannot take stops its stream: then it is the code that is wrong.
MOST_CULPRITS: Final = 100
KEPT: Final = {"key": pl.Binary(), "value": pl.Binary()}


@dataclass
class LoopTally:
    """A loop's counts in an epoch: rounds, messages, messages dropped by `until`; rejected events with the reason."""

    rounds: int = 0
    messages: int = 0
    dropped: int = 0
    refused: list[tuple[str, str]] = field(default_factory=list)


class Machine(ABC):
    """The rounds of one epoch. Inboxes are a machine's own: what a round's messages are, in the form that it likes."""

    #: An epoch with more events, or a round with more messages, is cut into parts.
    most_events: ClassVar[int]
    most_messages: ClassVar[int]

    def __init__(self, iteration: Iteration) -> None:
        self.iteration = iteration
        self.changed = 0  # states that the last round has changed

    @abstractmethod
    def enter(self, events: pl.DataFrame) -> tuple[Any, list[tuple[str, str]]]:
        """The messages that events enter with, and the events that cannot: as JSON, with the reason."""

    @abstractmethod
    def together(self, inboxes: Sequence[Any]) -> Any:
        """Inboxes of parts as one."""

    @abstractmethod
    def size(self, inbox: Any) -> int:
        """How many messages there are."""

    @abstractmethod
    def unknown(self, inbox: Any) -> pl.Series:
        """The keys with messages whose states are not here yet, as bytes."""

    @abstractmethod
    def know(self, asked: pl.Series, stored: pl.DataFrame) -> None:
        """Takes the stored states of keys that it lacked."""

    @abstractmethod
    def step(self, inbox: Any, number: int) -> Any:
        """A round, done here."""

    @abstractmethod
    def parts(self, inbox: Any, count: int) -> list[bytes]:
        """The work of a round, cut by key into `count` parts."""

    @abstractmethod
    def work(self, part: bytes, number: int) -> bytes:
        """A part of a round, done by a machine that knows nothing else."""

    @abstractmethod
    def put(self, done: Sequence[bytes]) -> Any:
        """Takes the results of the parts of a round."""

    @abstractmethod
    def save(self) -> Any:
        """The machine's state, for `load`: here, or in another machine of the same loop."""

    @abstractmethod
    def load(self, saved: Any) -> None: ...

    @abstractmethod
    def memory(self) -> pl.DataFrame:
        """The states to store: `key`, `value`."""

    @abstractmethod
    def rows(self) -> pl.DataFrame:
        """The rows of the loop's stream: what changed in what its keys show."""


def run(
    machine: Machine, inbox: Any, fetch: Fetch, tally: LoopTally, name: str, *, first: int = 0, bound: int = 0
) -> Any:
    """Runs rounds until no messages are left. With a bound, stops before a round with more messages, and returns them.

    `tally.rounds` is the number of the next round.
    """
    number = tally.rounds = first
    while size := machine.size(inbox):
        if number >= machine.iteration.max_rounds:
            raise did_not_end(machine.iteration, name)
        if 0 < bound < size:
            return inbox
        asked = machine.unknown(inbox)
        if len(asked):
            machine.know(asked, fetch(asked))
        inbox = machine.step(inbox, number)
        inbox = after(machine, inbox, number, size, tally)
        number = tally.rounds
    return inbox


def after(machine: Machine, inbox: Any, number: int, size: int, tally: LoopTally) -> Any:
    """Counts a round, and drops pending messages where the loop's `until` ends it."""
    tally.rounds, tally.messages = number + 1, tally.messages + size
    until, sent = machine.iteration.until, machine.size(inbox)
    if until is not None and sent and until(Round(number, sent, machine.changed)):
        tally.dropped += sent
        return machine.together([])
    return inbox


def run_around(machine: Machine, events: pl.DataFrame, fetch: Fetch, tally: LoopTally, name: str) -> None:
    """Retries a failed epoch in halves, recursively, until the events at fault are found: these are rejected."""
    before, rounds = machine.save(), tally.rounds
    try:
        inbox, refused = machine.enter(events)
        run(machine, inbox, fetch, tally, name)
        machine.rows()
        tally.refused += refused
    except LoopError as error:
        machine.load(before)
        if events.height == 1:
            tally.refused.append((event_texts(events, machine.iteration)[0], error.message))
            if len(tally.refused) > MOST_CULPRITS:
                raise PenstockError(
                    f"the loop '{name}' fails on more than {MOST_CULPRITS} events of one epoch",
                    detail=error.message,
                    hint="correct its code, or the events: the epoch is done again when the app starts",
                ) from error
            return
        half = events.height // 2
        for part in (events[:half], events[half:]):
            run_around(machine, part, fetch, tally, name)
    finally:
        tally.rounds = max(rounds, tally.rounds)


def event_texts(events: pl.DataFrame, iteration: Iteration) -> list[str]:
    """Events as JSON, as dead letters keep them."""
    return events.select(as_json(events, iteration.event.names).alias("row"))["row"].to_list()


def machine_of(iteration: Iteration) -> Machine:
    if isinstance(iteration.body, FrameLoop):
        from penstock.runtime.derived.loops.frames import FrameMachine

        return FrameMachine(iteration)
    from penstock.runtime.derived.loops.keys import KeyMachine

    return KeyMachine(iteration)
