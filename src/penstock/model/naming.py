"""Names of columns, tables and users' functions, and what happens to a row on which a function fails.

>>> function_name(len)
'len'
"""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from penstock.errors import RowError


def function_name(function: Callable[..., Any]) -> str:
    """The name to show: its own, without the module."""
    return getattr(function, "__qualname__", type(function).__qualname__).rpartition("<locals>.")[2]


@contextmanager
def failing_rows(who: str) -> Iterator[None]:
    """Whatever a user's function raises concerns one row, which goes to the dead letters with that reason.

    >>> with failing_rows("the function f"):
    ...     1 / 0
    Traceback (most recent call last):
    penstock.errors.RowError: the function f failed: ZeroDivisionError: division by zero
    """
    try:
        yield
    except RowError:
        raise
    except Exception as error:
        raise RowError(f"{who} failed: {type(error).__name__}: {error}") from error


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


def split_alias(text: str) -> tuple[str, str | None]:
    """'expression AS name' as expression and name; the name is None where there is none.

    >>> split_alias("price * 2 AS twice"), split_alias("CAST(price AS int)")
    (('price * 2', 'twice'), ('CAST(price AS int)', None))
    """
    alias = re.fullmatch(r"(?is)(.+?)\s+AS\s+`?(\w+)`?\s*", text)
    return (text.strip(), None) if alias is None else (alias[1].strip(), alias[2])
