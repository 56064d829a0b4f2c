"""The rounds of a loop whose code goes by key."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any
from zlib import crc32

import polars as pl

from penstock.errors import RowError
from penstock.kernel.expressions import dtype
from penstock.model.loops import Iteration
from penstock.model.loops_rounds import Inbox, Sent, States, Steps, inbox_of
from penstock.runtime.derived.loops.machine import KEPT, PLACE, Machine, event_texts


class KeyMachine(Machine):
    """Runs code by key."""

    most_events = 20_000
    most_messages = 50_000

    def __init__(self, iteration: Iteration) -> None:
        super().__init__(iteration)
        self._steps, self._states = Steps(iteration), States()

    def enter(self, events: pl.DataFrame) -> tuple[list[Sent], list[tuple[str, str]]]:
        sent: list[Sent] = []
        refused: list[tuple[str, str]] = []
        names = self.iteration.event.names
        values = events.select(plain(events[name]) for name in names).iter_rows() if names else iter(())
        places = events.select(PLACE).iter_rows()
        for number, (place, row) in enumerate(zip(places, values, strict=True)):
            try:
                by = "{:020}\x1f{}\x1f{:010}\x1f{:020}".format(*place).encode()
                sent += [(by, key, message) for key, message in self._steps.enter(row)]
            except RowError as error:
                refused.append((event_texts(events[number : number + 1], self.iteration)[0], error.message))
        return sent, refused

    def together(self, inboxes: Sequence[list[Sent]]) -> list[Sent]:
        return [one for inbox in inboxes for one in inbox]

    def size(self, inbox: list[Sent]) -> int:
        return len(inbox)

    def unknown(self, inbox: list[Sent]) -> pl.Series:
        keys = dict.fromkeys(key for _, key, _ in inbox)
        return pl.Series("key", self._states.unknown(keys), dtype=pl.Binary)

    def know(self, asked: pl.Series, stored: pl.DataFrame) -> None:
        self._states.know(dict(stored.select("key", "value").iter_rows()), asked.to_list())

    def step(self, inbox: list[Sent], number: int) -> list[Sent]:
        changed, sent = self._steps.step(self._states.now, inbox_of(inbox), number)
        self._states.now.update(changed)
        self.changed = len(changed)
        return sent

    def parts(self, inbox: list[Sent], count: int) -> list[bytes]:
        cut: list[tuple[dict[bytes, bytes | None], Inbox]] = [({}, {}) for _ in range(count)]
        for key, messages in inbox_of(inbox).items():
            states, part_messages = cut[crc32(key) % count]
            states[key], part_messages[key] = self._states.now[key], messages
        return [pickle.dumps(part) for part in cut if part[1]]

    def work(self, part: bytes, number: int) -> bytes:
        states, inbox = pickle.loads(part)
        return pickle.dumps(self._steps.step(states, inbox, number))

    def put(self, done: Sequence[bytes]) -> list[Sent]:
        messages: list[Sent] = []
        self.changed = 0
        for changed, sent in map(pickle.loads, done):
            self._states.now.update(changed)
            self.changed += len(changed)
            messages += sent
        return messages

    def save(self) -> States:
        return self._states.copy()

    def load(self, saved: States) -> None:
        self._states = saved.copy()

    def memory(self) -> pl.DataFrame:
        return pl.DataFrame(list(self._states.changed.items()), schema=KEPT, orient="row")

    def rows(self) -> pl.DataFrame:
        rows = self._steps.rows(self._states)
        columns = []
        physical = {"timestamp": pl.Int64(), "date": pl.Int32()}
        for number, (name, kind) in enumerate(self.iteration.schema):
            values = [row[number] for row in rows]
            columns.append(pl.Series(name, values, dtype=physical.get(kind, dtype(kind))).cast(dtype(kind)))
        return pl.DataFrame(columns)


def plain(column: pl.Series) -> pl.Series:
    """A column as the model has its values: times as numbers."""
    inner: Any = column.dtype
    while isinstance(inner, pl.List):
        inner = inner.inner
    return column.to_physical() if inner.is_temporal() else column
