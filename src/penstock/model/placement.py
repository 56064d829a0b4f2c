"""Where a view's state lives: rows of the store while it is small, segments in shards when it is large.

>>> Placement("sharded", 32).count, Placement().count
(32, 16)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from penstock.errors import DefinitionError

#: `auto`: the store, until the view has many open windows.
StateKind: TypeAlias = Literal["auto", "store", "sharded"]
#: Default and largest number of shards of a view.
SHARDS: Final = 16
MOST_SHARDS: Final = 4096


@dataclass(frozen=True)
class Placement:
    """A choice for one view. `shards`: into how many parts its work can be cut, if the user sets it."""

    kind: StateKind = "auto"
    shards: int | None = None

    @property
    def count(self) -> int:
        """The number of shards."""
        return SHARDS if self.shards is None else self.shards


def placement(view: str, state: str | None, shards: int | None) -> Placement:
    """The choice that a user has made."""
    kinds = get_args(StateKind)
    if state is not None and state not in kinds:
        raise DefinitionError(f"the state of '{view}' cannot be '{state}'", hint=f"choose one of {', '.join(kinds)}")
    if shards is not None and (
        isinstance(shards, bool) or not isinstance(shards, int) or not 1 <= shards <= MOST_SHARDS
    ):
        raise DefinitionError(f"the view '{view}' cannot have {shards!r} shards", hint=f"from 1 to {MOST_SHARDS}")
    if shards is not None and state == "store":
        raise DefinitionError(f"the state of '{view}' is in the store and has no shards", hint="leave out shards")
    return Placement(state or "auto", shards)  # type: ignore[arg-type]
