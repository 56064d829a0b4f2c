"""Groupings: which task of a bolt a tuple goes to.

A task is chosen by a hash that is the same in every process, on every machine and after every restart.

>>> task_of(key_of(("be",)), 4) == task_of(key_of(("be",)), 4)
True
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal, TypeAlias
from zlib import crc32

from penstock.errors import RowError

Kind: TypeAlias = Literal["shuffle", "fields", "all", "global", "local_or_shuffle"]


@dataclass(frozen=True)
class Grouping:
    """How the tuples of a stream of a component are divided among the tasks of a bolt; `fields` by their values."""

    kind: Kind
    source: str
    stream: str
    fields: tuple[str, ...] = ()

    def __repr__(self) -> str:
        named = [repr(self.source), *(repr(name) for name in self.fields)]
        arguments = [*named, f"stream={self.stream!r}"] if self.stream != "default" else named
        return f"{'global_' if self.kind == 'global' else self.kind}({', '.join(arguments)})"


def key_of(values: tuple[Any, ...]) -> bytes:
    """Values as bytes that are the same in every process."""
    return b"\x1f".join([_bytes(value) for value in values])


def task_of(key: bytes, tasks: int) -> int:
    """The task of a key."""
    return crc32(key) % tasks


def _bytes(value: Any) -> bytes:
    kind = type(value)
    if kind is str:
        text: bytes = value.encode("utf-8", "surrogatepass")
        return b"s" + text.replace(b"\x1f", b"\x1f\x1f")
    if value is None:
        return b"n"
    if kind is bool:
        return b"b1" if value else b"b0"
    if kind is int:
        return b"i%d" % value
    if kind is float:
        return b"f" + repr(value + 0.0 if value else 0.0).encode()  # one zero
    if kind is bytes:
        return b"x" + bytes(value).hex().encode()
    if isinstance(value, datetime):
        return b"t" + value.isoformat().encode()
    if isinstance(value, date):
        return b"d" + value.isoformat().encode()
    if isinstance(value, Decimal):
        return b"m" + str(value.normalize()).encode()
    if isinstance(value, (list, tuple)):
        return b"[" + b",".join([_bytes(one).hex().encode() for one in value]) + b"]"
    raise RowError(
        f"{value!r} cannot be grouped by: it is a {kind.__name__}", hint="group by texts, numbers, times, lists of them"
    )
