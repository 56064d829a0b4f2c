"""A line of the catalog: a stream, view or sink as the store remembers it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Part: TypeAlias = Literal["stream", "view", "sink", "table"]


@dataclass(frozen=True)
class Entry:
    """A stream, view or sink, with the statement of a shell that made it, or none if it is the app's own.

    `id` is never given twice: a view that was dropped and made anew is another one. `columns` are those of a view's
    table with their types. `since` is the last commit before it was made, `rested` the one after which it rests.
    """

    id: int
    kind: Part
    name: str
    statement: str | None
    columns: tuple[tuple[str, str], ...]
    since: int
    rested: int | None
