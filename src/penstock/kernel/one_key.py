"""One key: its hash and its bytes, the same as `hashes` and `encoded` give for a column of keys, without columns.

A lookup needs these of one key. Columns of one row cost a hundred times as much.

>>> key = PlainKey(("string", "bigint"), ("a", 1))
>>> hex(key.hash), key.encoded.hex()
('0xb2ce13e1eb22c035', '010100000001010000000000000061')
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

from penstock.kernel.hashing import BASE, MIXING, NULL

#: Times are microseconds, dates are days.
Plain: TypeAlias = int | float | bool | str | bytes | None

_WHOLE: Final = (1 << 64) - 1
#: Longer texts are left to columns.
_LONGEST: Final = 1000
#: How a value of each type stands in the head of a key, and its type in Python.
_HEADS: Final = {
    "tinyint": ("b", int), "smallint": ("h", int), "int": ("i", int), "bigint": ("q", int), "date": ("i", int),
    "timestamp": ("q", int), "boolean": ("b", bool), "float": ("f", float), "double": ("d", float),
    "string": ("I", str), "binary": ("I", bytes),
}  # fmt: skip


@dataclass(frozen=True)
class PlainKey:
    """The values of a key, each of a scalar type, in the order of the key's columns."""

    kinds: tuple[str, ...]
    values: tuple[Plain, ...]

    @cached_property
    def hash(self) -> int:
        """The hash by which segments are sorted."""
        combined = 0
        for kind, value in zip(self.kinds, self.values, strict=True):
            combined = _mixed((combined * BASE + _hash(kind, value)) & _WHOLE)
        return combined

    @cached_property
    def encoded(self) -> bytes:
        """The key as bytes."""
        heads, texts = [], []
        for kind, value in zip(self.kinds, self.values, strict=True):
            code, _ = _HEADS[kind]
            text = _bytes(value) if isinstance(value, str | bytes) else None
            texts.append(text or b"")
            heads.append(struct.pack(f"<B{code}", value is not None, (value or 0) if text is None else len(text)))
        return b"".join(heads + texts)


def plain_key(kinds: Sequence[str], values: Sequence[object]) -> PlainKey | None:
    """A key of these values; None if a type is not scalar, or if a value is not one of its type."""
    plain: list[Plain] = []
    try:
        for kind, value in zip(kinds, values, strict=True):
            plain.append(_canonical(kind, value))
    except (LookupError, TypeError, ValueError, OverflowError, struct.error):
        return None
    return PlainKey(tuple(kinds), tuple(plain))


def _canonical(kind: str, value: object) -> Plain:
    """A value with one zero and in the range of its type; an error if it has none."""
    code, python = _HEADS[kind]
    if value is None:
        return None
    if type(value) is not python:
        raise TypeError
    if isinstance(value, float):
        (number,) = struct.unpack(f"<{code}", struct.pack(f"<{code}", value + 0.0))  # -0.0 + 0.0 is 0.0
        return float(number) if number == number else float("nan")
    if isinstance(value, str | bytes):
        if len(_bytes(value)) > _LONGEST:
            raise ValueError
        return value
    assert isinstance(value, int)
    struct.pack(f"<{code}", value)
    return value


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def _hash(kind: str, value: Plain) -> int:
    if value is None:
        return NULL
    if isinstance(value, str | bytes):
        total, power = 0, 1
        for byte in _bytes(value):
            power = power * BASE & _WHOLE
            total += (byte + 1) * power
        return _mixed(total & _WHOLE)
    if isinstance(value, float):
        return _mixed(int.from_bytes(struct.pack("<d", value), "little"))
    return _mixed(value & _WHOLE)


def _mixed(number: int) -> int:
    for shift, factor in MIXING:
        number = (number ^ (number >> shift)) * factor & _WHOLE
    return number
