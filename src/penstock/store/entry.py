"""What the store remembers of a stream, view or sink, and of a view's generations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from penstock.model.time import Instant

Part: TypeAlias = Literal["stream", "view", "sink", "table"]
#: The kinds of texts about the whole app, and the names of their rows in the catalog.
Text: TypeAlias = Literal["graph", "definitions", "calls"]
TEXTS: Final[dict[Text, str]] = {"graph": "dataflow", "definitions": "app", "calls": "code"}
#: The name by which the target of a renamed sink knows it: the one that it had first.
DELIVERY_NAME: Final = "delivery name"
DELIVERY_NAMES: Final = f"SELECT name, statement FROM __catalog WHERE kind = '{DELIVERY_NAME}'"
#: They are no parts of the app.
NO_PARTS: Final = f"kind NOT IN ({', '.join(repr(kind) for kind in (*TEXTS, DELIVERY_NAME))})"


@dataclass(frozen=True)
class Entry:
    """A stream, view or sink, with the statement of a shell that made it, or none if it is the app's own.

    `id` is never used twice: a view that was dropped and created again is another one. `columns` are those of a view's
    table with their types. `since` is the last commit before it was made, `rested` the one after which it rests.
    """

    id: int
    kind: Part
    name: str
    statement: str | None
    columns: tuple[tuple[str, str], ...]
    since: int
    rested: int | None


@dataclass(frozen=True)
class GenerationRecord:
    """A generation as the store remembers it."""

    view: str
    number: int
    kind: str
    definition: str
    statement: str | None
    pickled: bytes | None = field(repr=False)
    point: int
    commit: int
    now: Instant
