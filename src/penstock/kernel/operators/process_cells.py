"""The cells of a processor as bytes: what one key has, packed.

A cell is a tuple: which states there are (four bytes for each, a checksum of its name and type), their values, the
timers, and when entries are gone. A state that the class does not declare any more keeps its bytes, and comes back with
its old declaration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final
from zlib import crc32

import msgpack

from penstock.errors import DefinitionError
from penstock.kernel.operators.process_code import attribute, is_plain
from penstock.model.cell import EVENT, PROCESSING, Cell
from penstock.model.state import ListOf, MapOf, State
from penstock.model.time import Instant

#: Text of any kind survives, halves of pairs too.
_ERRORS: Final = "surrogatepass"
#: How many cells are unpacked together.
_TOGETHER: Final = 1_000


class CellFormat:
    """Packs the cells of a processor, and unpacks them: plain values into a dictionary, the rest into a cell."""

    def __init__(self, states: Mapping[str, State[Any]]) -> None:
        self._plain = [state for state in states.values() if is_plain(state)]
        self._held = [state for state in states.values() if not is_plain(state)]
        self.names = [attribute(state) for state in self._plain]
        self._places = list(enumerate(self.names, 1))
        self._all_plain = not self._held and all(state.kind.pack is None for state in self._plain)
        ids = [_id(state) for state in (*self._plain, *self._held)]
        if len(set(ids)) < len(ids):
            raise DefinitionError("two states of a processor have the same checksum", hint="rename one of them")
        self._head = b"".join(ids)
        #: The tuple of a cell that is kept although nothing is in it.
        self.empty: tuple[Any, ...] = (self._head, *[None] * len(ids), None, None)
        #: What a tuple has besides values, under names of its own, so that all of it is picked at once.
        self.constants: dict[str, Any] = {"_cell_head": self._head, "_cell_end": None}
        picked = ["_cell_head", *self.names, "_cell_end", "_cell_end"]
        self._pick: Callable[[Any], Any] = itemgetter(*picked) if self._all_plain and self.names else _missing
        self._pack = msgpack.Packer(autoreset=True, unicode_errors=_ERRORS).pack

    def unpacked(self, cells: Sequence[bytes]) -> Iterator[Sequence[Any]]:
        """The tuples of packed cells."""
        unpacker = msgpack.Unpacker(use_list=False, strict_map_key=False, unicode_errors=_ERRORS, max_buffer_size=0)
        for start in range(0, len(cells), _TOGETHER):
            unpacker.feed(b"".join(cells[start : start + _TOGETHER]))
            yield from unpacker

    def load(self, packed: Sequence[Any] | None, values: dict[str, Any], cell: Cell) -> None:
        """Puts what a tuple has into a dictionary, in place of other plain values, and into an empty cell."""
        if packed is None:
            for name in self.names:
                values.pop(name, None)
            return
        if packed[0] != self._head:
            packed = self._arranged(packed, cell)
        for number, name in self._places:
            value = packed[number]
            if value is None:
                values.pop(name, None)
            else:
                values[name] = value
        timers = packed[-2]
        if timers is not None:
            cell.timers = {(PROCESSING if clock else EVENT, name): at for clock, name, at in timers}
        if not self._all_plain:
            self._load_held(packed, values, cell)

    def _load_held(self, packed: Sequence[Any], values: dict[str, Any], cell: Cell) -> None:
        for state, name in zip(self._plain, self.names, strict=True):
            if state.kind.unpack is not None and name in values:
                values[name] = state.kind.unpack(values[name])
        gone = packed[-1] or {}
        for number, state in enumerate(self._held, 1 + len(self._plain)):
            if packed[number] is not None:
                cell.states[state.name] = _held(state, packed[number], gone.get(number))

    def cell(self, packed: Sequence[Any]) -> Cell:
        """All that a tuple has as a cell: plain values are entries of it too."""
        cell, values = Cell(), dict[str, Any]()
        self.load(packed, values, cell)
        for state, name in zip(self._plain, self.names, strict=True):
            if name in values:
                cell.states[state.name] = values[name], None
        return cell

    def plain_tuple(self, values: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """A cell of which only plain values are there, as a tuple; None if it is empty."""
        try:
            return self._pick(values)  # type: ignore[no-any-return]
        except KeyError:
            return self._any_tuple(values, Cell())

    def cell_tuple(self, values: Mapping[str, Any], cell: Cell) -> tuple[Any, ...] | None:
        """A cell as a tuple; None if it is empty."""
        if not self._all_plain or cell.states:
            return self._any_tuple(values, cell)
        packed = [values.get(name) for name in self.names]
        timers = [(clock == PROCESSING, name, at) for (clock, name), at in cell.timers.items()]
        if not timers and packed.count(None) == len(packed):
            return None
        return (self._head, *packed, timers or None, None)

    def packed(self, cells: Sequence[tuple[Any, ...] | None]) -> list[bytes | None]:
        """Tuples as bytes; None stays None."""
        pack = self._pack
        return [None if cell is None else pack(cell) for cell in cells]

    def _any_tuple(self, values: Mapping[str, Any], cell: Cell) -> tuple[Any, ...] | None:
        packed = [state.kind.packed(values.get(name)) for state, name in zip(self._plain, self.names, strict=True)]
        head, gone = self._head, {}
        for number, state in enumerate(self._held, 1 + len(self._plain)):
            held = cell.states.get(state.name)
            value, times = (None, None) if held is None else _packed(state, held)
            packed.append(value)
            if times is not None:
                gone[number] = times
        for key, held in cell.states.items():
            if isinstance(held, bytes):  # nobody declares it
                value, times = msgpack.unpackb(held, use_list=False, strict_map_key=False, unicode_errors=_ERRORS)
                head += bytes.fromhex(key)
                packed.append(value)
                if times is not None:
                    gone[len(packed)] = times
        timers = [(clock == PROCESSING, name, at) for (clock, name), at in cell.timers.items()]
        if not timers and all(value is None for value in packed):
            return None
        return (head, *packed, timers or None, gone or None)

    def _arranged(self, packed: Sequence[Any], cell: Cell) -> Sequence[Any]:
        """A tuple of other states as one of these; what nobody declares goes to the cell as bytes."""
        gone = packed[-1] or {}
        ids = [packed[0][place : place + 4] for place in range(0, len(packed[0]), 4)]
        known = {one: (packed[number], gone.get(number)) for number, one in enumerate(ids, 1)}
        own = [self._head[place : place + 4] for place in range(0, len(self._head), 4)]
        for one, (value, times) in known.items():
            if one not in own and value is not None:
                cell.states[one.hex()] = self._pack((value, times))
        own_values = [known.get(one, (None, None)) for one in own]
        left = {number: times for number, (_, times) in enumerate(own_values, 1) if times is not None}
        return (self._head, *(value for value, _ in own_values), packed[-2], left or None)


def _missing(values: Mapping[str, Any]) -> tuple[Any, ...]:
    """There is no short way to the tuple."""
    raise KeyError


def _id(state: State[Any]) -> bytes:
    return crc32(f"{state.name} {state.shape}".encode()).to_bytes(4, "big")


def _packed(state: State[Any], held: Any) -> tuple[Any, Any]:
    """What is held of a state, and when it does not exist: None if never."""
    value = state.kind.packed
    if isinstance(state, ListOf):
        times = [gone for _, gone in held]
        return [value(one) for one, _ in held], times if any(gone is not None for gone in times) else None
    if isinstance(state, MapOf):
        key = state.key_kind.packed
        times = [gone for _, gone in held.values()]
        items = [(key(name), value(one)) for name, (one, _) in held.items()]
        return items, times if any(gone is not None for gone in times) else None
    return value(held[0]), held[1]


def _held(state: State[Any], stored: Any, gone: Any) -> Any:
    value = state.kind.unpacked
    if isinstance(state, ListOf):
        times: Sequence[Instant | None] = gone or (None,) * len(stored)
        return [(value(one), at) for one, at in zip(stored, times, strict=True)]
    if isinstance(state, MapOf):
        key, times = state.key_kind.unpacked, gone or (None,) * len(stored)
        return {key(name): (value(one), at) for (name, one), at in zip(stored, times, strict=True)}
    return value(stored), gone
