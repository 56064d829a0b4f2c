"""How a user's function is named and told apart from a changed one, in reprs and fingerprints.

>>> function_name(len)
'len'
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from typing import Any


def function_name(function: Callable[..., Any]) -> str:
    """The name to show: its own, without the module."""
    return getattr(function, "__qualname__", type(function).__qualname__).rpartition("<locals>.")[2]


def function_identity(function: Callable[..., Any]) -> str:
    """A text that changes when the function's code does: name, and a digest of its source or byte code."""
    try:
        body = inspect.getsource(function).strip()
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        body = "" if code is None else code.co_code.hex() + repr(code.co_consts)
    return f"{function_name(function)}#{hashlib.sha256(body.encode()).hexdigest()[:12]}"


def valid_name(name: object) -> bool:
    """Whether a name can be a table's or a column's in every store and in SQL, unquoted."""
    return isinstance(name, str) and name.isidentifier() and not name.startswith("__")
