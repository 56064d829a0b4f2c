"""What a component emits on one stream: rows with the fields and types that it declared, and their way by fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

from penstock.errors import RowError, unknown
from penstock.model.kinds import Kind, kind_of
from penstock.topology.definition import Topology
from penstock.topology.groupings import key_of, task_of
from penstock.topology.tuples import Roots

#: Tuples by task: their values, and their trees.
Parted: TypeAlias = list[tuple[int, list[tuple[Any, ...]], list[Roots]]]
#: Values of these types need no look at what they are worth; of numbers only how large they are.
_EXACT = {"string": str, "double": float, "boolean": bool, "binary": bytes, "bigint": int}
_LARGE = 1 << 63


class Outlet:
    """A stream of a component: what its tuples must have, and what was emitted on it."""

    def __init__(self, component: str, topology: Topology, stream: str) -> None:
        fields = topology.fields(component, stream)
        self._names, self.size = fields.names, len(fields.names)
        self.values: list[tuple[Any, ...]] = []
        self.roots: list[Roots] = []
        self.rows: list[tuple[Any, ...]] = []
        self.exact: tuple[type | None, ...] | None = None
        if (component, stream) in topology.outputs:
            assert fields.schema is not None
            self.exact = tuple(_EXACT.get(kind) for _, kind in fields.schema)
            self._numbers = [place for place, kind in enumerate(self.exact) if kind is int]
            self._kinds = [(name, kind_of(kind)) for name, kind in fields.schema]

    def row(self, values: Any) -> tuple[Any, ...]:
        """What is emitted, in the order of the fields."""
        if isinstance(values, Mapping):
            for name in values:
                if name not in self._names:
                    raise unknown("field of the output", str(name), self._names)
            return tuple([values.get(name) for name in self._names])
        if isinstance(values, Sequence) and not isinstance(values, (str, bytes)) and len(values) == self.size:
            return tuple(values)
        raise RowError(
            f"{values!r} lacks the fields {', '.join(self._names)}", hint="emit a tuple, a list or a dictionary"
        )

    def leave(self, row: tuple[Any, ...]) -> None:
        """A row of the app's stream: its values must have the types that were declared."""
        if tuple(map(type, row)) == self.exact:
            for place in self._numbers:
                if not -_LARGE <= row[place] < _LARGE:
                    break
            else:
                self.rows.append(row)
                return
        self.rows.append(tuple([_taken(*of, value) for of, value in zip(self._kinds, row, strict=True)]))


def _taken(name: str, kind: Kind, value: Any) -> Any:
    try:
        return kind.taken(value)
    except RowError as error:
        raise RowError(f"the field '{name}' of the output: {error.message}") from None


def by_fields(
    values: list[tuple[Any, ...]], roots: list[Roots], places: list[int], tasks: int, keys: dict[bytes, None]
) -> tuple[Parted, list[tuple[Roots, str]]]:
    """Tuples by the hash of some of their values, and those that have none; `keys` takes up the keys that there are."""
    parts: Parted = [(task, [], []) for task in range(tasks)]
    known: dict[str, tuple[int, list[tuple[Any, ...]], list[Roots]]] = {}
    refused: list[tuple[Roots, str]] = []
    get, alone = itemgetter(*places), len(places) == 1
    for row, root in zip(values, roots, strict=True):
        value = get(row)
        to = known.get(value) if type(value) is str else None
        if to is None:
            try:
                key = key_of((value,) if alone else value)
            except RowError as error:
                refused.append((root, error.message))
                continue
            keys[key] = None
            to = parts[task_of(key, tasks)]
            if type(value) is str:
                known[value] = to
        to[1].append(row)
        to[2].append(root)
    return parts, refused
