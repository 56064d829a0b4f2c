"""The definitions of an app as the store records them: one value for each stream, operator, table, view and sink.

>>> orders = Definition("stream", "orders", (("source", "files('in')"),))
>>> Record.from_json(Record("shop", "1.0", (orders,)).to_json()).definitions == (orders,)
True
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["stream", "operator", "table", "view", "sink"]


def identity(kind: Kind, name: str) -> str:
    """What tells a definition from all others of an app. What an operator gives is a stream.

    >>> identity("operator", "sessions"), identity("view", "sessions")
    ('stream sessions', 'view sessions')
    """
    return f"{'stream' if kind == 'operator' else kind} {name}"


@dataclass(frozen=True)
class Definition:
    """A definition as its parts. `state` says what its state was computed by; None: it has none, or it is not known.

    `reads` are the identities of what it reads. A definition without parts is known by its name only.
    """

    kind: Kind
    name: str
    parts: tuple[tuple[str, str], ...] = ()
    state: str | None = None
    reads: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return identity(self.kind, self.name)

    @property
    def is_known(self) -> bool:
        """Whether more than the name is recorded."""
        return bool(self.parts)

    def part(self, name: str) -> str:
        """A part as text; empty if it has none of this name."""
        return dict(self.parts).get(name, "")


@dataclass(frozen=True)
class Record:
    """What an app was made of at its last start or change, and the version of Penstock that recorded it."""

    app: str
    version: str
    definitions: tuple[Definition, ...]

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Record:
        content = json.loads(text)
        return Record(content["app"], content["version"], tuple(map(_definition, content["definitions"])))


def _definition(content: dict[str, object]) -> Definition:
    fields = dict(content)
    fields["parts"] = tuple((part, text) for part, text in fields["parts"])  # type: ignore[attr-defined]
    fields["reads"] = tuple(fields["reads"])  # type: ignore[arg-type]
    return Definition(**fields)  # type: ignore[arg-type]


def by_identity(definitions: Iterable[Definition]) -> dict[str, Definition]:
    """Definitions by what tells them apart, in order."""
    return {definition.id: definition for definition in definitions}
