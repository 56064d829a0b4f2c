"""Keys, states and messages of a loop as bytes: plain Python values and nothing else, from any source.

>>> unpacked(packed({"hops": 3, "to": {"a", "b"}})) == {"hops": 3, "to": {"a", "b"}}
True
>>> packed(object())
Traceback (most recent call last):
penstock.errors.RowError: a value of the type object cannot be kept
  hint: keep numbers, texts, bytes, and tuples, lists, sets and dictionaries of them
"""

from __future__ import annotations

import json
import pickle
from typing import Any, Final

from penstock.errors import RowError
from penstock.model.plain import NotPlain, plain

_PLAIN: Final = (bool, int, float, str, bytes, type(None))
_HINT: Final = "keep numbers, texts, bytes, and tuples, lists, sets and dictionaries of them"


def packed(value: Any) -> bytes:
    """A plain value as bytes."""
    _check(value)
    return pickle.dumps(value, protocol=5)


def unpacked(data: bytes) -> Any:
    """The value that bytes stand for. Nothing is run that they may name."""
    try:
        return plain(data)
    except NotPlain as error:
        raise RowError(f"not a plain value: {error}", hint=_HINT) from None


def key_bytes(key: Any) -> bytes:
    """A key as bytes: a text, a whole number, or a tuple of them. Others may mean the same and differ."""
    parts = key if isinstance(key, tuple) else (key,)
    for part in parts:
        if type(part) not in (str, int):
            raise RowError(
                f"{key!r} cannot be the key of a loop", hint="take a text, a whole number, or a tuple of them"
            )
    return json.dumps(key, ensure_ascii=False, separators=(",", ":")).encode()


def key_of(data: bytes) -> Any:
    """The key that bytes stand for."""
    key = json.loads(data)
    return tuple(key) if isinstance(key, list) else key


def _check(value: Any) -> None:
    kind = type(value)
    if kind in _PLAIN:
        return
    if kind is dict:
        for key, held in value.items():
            _check(key)
            _check(held)
    elif kind in (tuple, list, set, frozenset):
        for held in value:
            _check(held)
    else:
        raise RowError(f"a value of the type {kind.__name__} cannot be kept", hint=_HINT)
