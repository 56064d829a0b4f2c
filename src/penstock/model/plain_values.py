"""Values of events as bytes: numbers, texts, times and lists of them, as user code has them.

>>> from datetime import date
>>> unpacked(packed([1, "a", date(2024, 5, 1), Decimal("1.50"), None]))
[1, 'a', datetime.date(2024, 5, 1), Decimal('1.50'), None]
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any, Final

import msgpack

_DATE, _DECIMAL = 1, 2
#: Text of any kind survives, halves of pairs too.
_ERRORS: Final = "surrogatepass"


def packed(values: Any) -> bytes:
    """Values, and lists of them, as bytes."""
    return msgpack.packb(values, default=_extended, datetime=True, unicode_errors=_ERRORS)  # type: ignore[no-any-return]


def unpacked(data: bytes) -> Any:
    """What `packed` was given; tuples are lists then."""
    return msgpack.unpackb(data, ext_hook=_value, timestamp=3, unicode_errors=_ERRORS, strict_map_key=False)


def _extended(value: Any) -> msgpack.ExtType:
    if isinstance(value, date):
        return msgpack.ExtType(_DATE, value.isoformat().encode())
    if isinstance(value, Decimal):
        return msgpack.ExtType(_DECIMAL, str(value).encode())
    raise TypeError(f"no plain value: {value!r}")


def _value(code: int, data: bytes) -> Any:
    text = bytes(data).decode()
    return date.fromisoformat(text) if code == _DATE else Decimal(text)
