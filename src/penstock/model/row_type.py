"""Rows as user code sees them."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any


def row_type(name: str, columns: Sequence[str], also: Mapping[str, object] = MappingProxyType({})) -> Any:
    """Rows with their columns as attributes (`event.user`), by name (`event["user"]`) and in order."""
    base = namedtuple(name, columns, rename=True)  # type: ignore[misc]
    places = {column: place for place, column in enumerate(columns)}

    def item(self: Any, which: Any) -> Any:
        return tuple.__getitem__(self, places[which] if isinstance(which, str) else which)

    def as_dict(self: Any) -> dict[str, Any]:
        return dict(zip(columns, self, strict=True))

    return type(name, (base,), {"__slots__": (), "__getitem__": item, "as_dict": as_dict, **also})
