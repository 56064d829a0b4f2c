"""Spark's total order of values, as a Python key: null first, NaN after every number, −0.0 equal to 0.0.

>>> sorted([3.0, float("nan"), None, -1.0], key=key)
[None, -1.0, 3.0, nan]
>>> key(-0.0) == key(0.0), key(float("nan")) == key(float("nan"))
(True, True)
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any, TypeAlias

#: What a value is ordered, matched and hashed by. Keys of one column compare with each other.
Key: TypeAlias = tuple[Any, ...]

_NULL: Key = (0,)
_NAN: Key = (1, 1, 0)


def key(value: object) -> Key:
    """The key of one value. Equal keys mean equal values; `value_of` gives the value back."""
    if value is None:
        return _NULL
    if isinstance(value, (str, bytes, bool)):
        # Python compares text by code point, which is the order of its UTF-8 bytes, and bytes unsigned: as Spark.
        return (1, value)
    if isinstance(value, float):
        return _NAN if math.isnan(value) else (1, 0, value + 0.0)  # −0.0 + 0.0 is 0.0
    if isinstance(value, (int, Decimal)):
        return (1, 0, value)
    if isinstance(value, (list, tuple)):
        return (1, tuple(key(part) for part in value))
    if isinstance(value, dict):
        return (1, tuple(key(part) for part in value.values()), tuple(value))
    raise TypeError(f"no order for {value!r}")


def exact(value: object) -> Key:
    """The key of a value that is kept as it came: −0.0 stands before 0.0, and `value_of` gives it back.

    >>> value_of(exact([-0.0, 0.0])), exact(-0.0) < exact(0.0) < exact(1.5)
    ([-0.0, 0.0], True)
    """
    if isinstance(value, float) and value == 0:
        return (1, 0, 0, math.copysign(1.0, value), value)
    if isinstance(value, (list, tuple)):
        return (1, tuple(exact(part) for part in value))
    if isinstance(value, dict):
        return (1, tuple(exact(part) for part in value.values()), tuple(value))
    return key(value)


def value_of(key: Key) -> Any:
    """The value that a key stands for, in its canonical form: one zero and one NaN.

    >>> value_of(key([-0.0, None, "a"]))
    [0.0, None, 'a']
    """
    if key == _NULL:
        return None
    if key == _NAN:
        return math.nan
    if isinstance(key[1], tuple):
        parts = [value_of(part) for part in key[1]]
        return dict(zip(key[2], parts, strict=True)) if len(key) == 3 else parts
    return key[-1]


def canonical(value: object) -> Any:
    """The value with −0.0 as 0.0 and every NaN as the one NaN, as Spark groups it."""
    return value_of(key(value))
