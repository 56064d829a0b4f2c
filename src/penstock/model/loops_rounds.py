"""The rounds of a loop by key, in plain Python, with the states that an epoch has looked at in memory.

In a round the keys that got messages take their step in the order of their keys. So a key gets its messages in the
order of their senders, wherever those took theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from penstock.errors import RowError
from penstock.model.kinds import kind_of
from penstock.model.loops import Iteration, Loop
from penstock.model.loops_values import key_bytes, key_of, packed, unpacked
from penstock.model.naming import failing_rows
from penstock.model.processing import Outputs
from penstock.model.row_type import row_type

#: The messages of a round, by the bytes of their keys.
Inbox: TypeAlias = dict[bytes, list[Any]]
#: What was sent: by whom, to whom, and what.
Sent: TypeAlias = tuple[bytes, bytes, Any]


class LoopError(RowError):
    """A loop that cannot go on with what it was given: its code failed, or it does not end."""


@dataclass
class States:
    """What keys have, as bytes: as the epoch found them, and as they are now. None: nothing."""

    before: dict[bytes, bytes | None] = field(default_factory=dict)
    now: dict[bytes, bytes | None] = field(default_factory=dict)

    def know(self, stored: Mapping[bytes, bytes], keys: Iterable[bytes]) -> None:
        for key in keys:
            self.before[key] = self.now[key] = stored.get(key)

    def unknown(self, keys: Iterable[bytes]) -> list[bytes]:
        return [key for key in keys if key not in self.now]

    def copy(self) -> States:
        return States(dict(self.before), dict(self.now))

    @property
    def changed(self) -> dict[bytes, bytes | None]:
        """What the epoch has made of keys, where that is something else."""
        return {key: value for key, value in self.now.items() if value != self.before[key]}


class Steps:
    """Runs the code of a loop."""

    def __init__(self, iteration: Iteration) -> None:
        assert isinstance(iteration.body, Loop)
        self.iteration, self._body = iteration, iteration.body
        self._who = f"the loop {iteration.name}"
        self._outputs = Outputs(_Shown.of(iteration))  # type: ignore[arg-type]
        self._give = [kind_of(kind).given for _, kind in iteration.event]
        self._event = row_type("Event", iteration.event.names)

    def enter(self, values: Sequence[object]) -> list[tuple[bytes, Any]]:
        """The messages that an event enters with."""
        event = self._event._make([give(value) for give, value in zip(self._give, values, strict=True)])
        with failing_rows(self._who):
            return [(key_bytes(key), message) for key, message in self._body.enter(event) or ()]

    def step(
        self, states: Mapping[bytes, bytes | None], inbox: Inbox, number: int
    ) -> tuple[dict[bytes, bytes | None], list[Sent]]:
        """A round of these keys: the states that have changed, and what was sent."""
        changed: dict[bytes, bytes | None] = {}
        sent: list[Sent] = []
        for key in sorted(inbox):
            held = states[key]
            shown = key_of(key)
            where = f"{self._who}, in round {number} of the key {shown!r},"
            try:
                with failing_rows(where):
                    state, messages = self._body.step(
                        shown, None if held is None else unpacked(held), inbox[key], number
                    )
                    sent += [(key, key_bytes(other), message) for other, message in messages or ()]
                    new = None if state is None else packed(state)
            except RowError as error:
                reason = error.message
                raise LoopError(reason if reason.startswith(where) else f"{where} failed: {reason}") from error
            if new != held and (held is None or new is None or unpacked(held) != state):
                changed[key] = new
        return changed, sent

    def rows(self, states: States) -> list[tuple[object, ...]]:
        """What changed in what keys show: rows of the loop's stream."""
        rows: list[tuple[object, ...]] = []
        for key, now in sorted(states.changed.items()):
            try:
                old, new = self._shown(key, states.before[key]), self._shown(key, now)
            except RowError as error:
                raise LoopError(error.message) from error
            for row in list(new):
                if row in old:
                    old.remove(row)
                    new.remove(row)
            rows += [(*row, -1) for row in old] + [(*row, 1) for row in new]
        return rows

    def _shown(self, key: bytes, state: bytes | None) -> list[tuple[object, ...]]:
        if state is None:
            return []
        with failing_rows(self._who):
            shown = self._body.show(key_of(key), unpacked(state))
            rows = shown if isinstance(shown, list) else [] if shown is None else [shown]
            return [self._outputs.row(None, row) for row in rows]


def inbox_of(sent: Iterable[Sent]) -> Inbox:
    """What was sent, by whom it is for, in the order of the senders."""
    inbox: Inbox = {}
    for _, key, message in sorted(sent, key=lambda one: one[0]):
        inbox.setdefault(key, []).append(message)
    return inbox


class _Shown:
    """The columns that a loop shows, as `Outputs` reads those of a processor."""

    sides: Mapping[str, str] = {}
    output: str

    @classmethod
    def of(cls, iteration: Iteration) -> type[_Shown]:
        return type(iteration.name, (cls,), {"output": iteration.shown.ddl()})


def did_not_end(iteration: Iteration, name: str) -> LoopError:
    return LoopError(
        f"the loop '{name}' ({iteration.name}) did not end within {iteration.max_rounds} rounds",
        hint="see whether its messages can go in circles; set max_rounds=… if it needs more",
    )
