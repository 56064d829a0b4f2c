"""What the functions of arrays, maps and structs make of their values: lists, dictionaries by key, and by field.

>>> from penstock.model.expressions.tree import Call
>>> NESTED_VALUES["element_at"](Call("element_at", (), "int"), [1, 2, 3], -1)
3
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from penstock.errors import RowError
from penstock.model.expressions.text import compiled_regex
from penstock.model.expressions.tree import Call

OUT_OF_BOUNDS: Final = "the index is out of the array's bounds"
INDEX_ZERO: Final = "element_at at index 0"


def _item(_: Call, values: list[Any], index: int) -> Any:
    if not 0 <= index < len(values):
        raise RowError(OUT_OF_BOUNDS)
    return values[index]


def _element_at(_: Call, values: list[Any], index: int) -> Any:
    if index == 0:
        raise RowError(INDEX_ZERO)
    if abs(index) > len(values):
        raise RowError(OUT_OF_BOUNDS)
    return values[index - 1 if index > 0 else index]


def _array_contains(_: Call, values: list[Any], value: Any) -> bool | None:
    """Null if it is not there, and a null is: that might be it."""
    if any(known is not None and (known == value or (known != known and value != value)) for known in values):
        return True
    return None if None in values else False


def _field(_: Call, value: Any, name: str) -> Any:
    if isinstance(value, list):
        return [None if one is None else one[name] for one in value]
    return value[name]


NESTED_VALUES: Final[dict[str, Callable[..., Any]]] = {
    "split": lambda _, text, separator: text.split(separator),
    "split_by": lambda _, text, regex: compiled_regex(regex).split(text),
    "size": lambda _, values: len(values), "item": _item, "element_at": _element_at,
    "get": lambda _, values, index: values[index] if 0 <= index < len(values) else None,
    "array": lambda _, *values: list(values), "array_contains": _array_contains,
    "array_join": lambda _, values, separator: separator.join(value for value in values if value is not None),
    "array_distinct": lambda _, values: list(dict.fromkeys(values)),
    "map_value": lambda _, entries, key: entries.get(key),
    "map_keys": lambda _, entries: list(entries), "map_values": lambda _, entries: list(entries.values()),
    "map_entries": lambda _, entries: [{"key": key, "value": value} for key, value in entries.items()],
    "map_contains_key": lambda _, entries, key: key in entries,
    "field": _field, "named_struct": lambda _, *args: dict(zip(args[::2], args[1::2], strict=True)),
}  # fmt: skip
