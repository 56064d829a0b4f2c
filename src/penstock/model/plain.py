"""Reads pickled plain values: numbers, texts, times and containers of them. Code that the bytes name is never run.

>>> import pickle, datetime, os
>>> plain(pickle.dumps([1, "a", datetime.date(2024, 5, 1)]))
[1, 'a', datetime.date(2024, 5, 1)]
>>> plain(pickle.dumps(os.system))
Traceback (most recent call last):
penstock.model.plain.NotPlain: the bytes name posix.system
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from penstock.model.moved import moved

_VALUES: Final = {
    ("datetime", "datetime"), ("datetime", "date"), ("datetime", "timedelta"), ("datetime", "timezone"),
    ("decimal", "Decimal"), ("builtins", "frozenset"), ("builtins", "set"), ("builtins", "bytearray"),
}  # fmt: skip


class NotPlain(pickle.UnpicklingError):
    """Bytes name something that is not a plain value."""


class _Plain(pickle.Unpickler):
    def __init__(self, data: bytes, also: Callable[[str, str], type | None]) -> None:
        super().__init__(io.BytesIO(data))
        self._also = also

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _VALUES:
            return super().find_class(module, name)
        kind = self._also(module, name)
        if kind is None:
            raise NotPlain(f"the bytes name {module}.{name}")
        return kind


def plain(data: bytes, also: Callable[[str, str], type | None] = lambda module, name: None) -> Any:
    """The value of pickled bytes. `also` names further classes that may be made, by module and name."""
    return _Plain(data, also).load()


def definition_part(module: str, name: str) -> type | None:
    """A class that definitions without functions are made of. None of them does anything when it is made."""
    module, name = moved(module, name)
    if not module.startswith(("penstock.model.", "penstock.sources.")) or "." in name:
        return None
    part = getattr(import_module(module), name, None)
    return part if isinstance(part, type) and hasattr(part, "__dataclass_fields__") else None
