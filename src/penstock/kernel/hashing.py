"""Hashes of keys: 64 bits, the same in every process and in every version, because files are sorted by them.

Null is a value like any other, every NaN is one, and -0.0 is 0.0: what is one key has one hash.

>>> keys = pl.DataFrame({"name": ["ann", "bob", "ann", None], "n": [1, 1, 1, 1]})
>>> found = hashes(keys)
>>> bool(found[0] == found[2]), len(set(found.tolist()))
(True, 3)
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl

from penstock.kernel.nested import packed

Array: TypeAlias = "np.ndarray[Any, Any]"

#: Odd, so it has a reciprocal modulo 2**64: with it the hash of one text is taken out of a running sum over all texts.
BASE: Final = 0x9E3779B97F4A7C15
_RECIPROCAL: Final = pow(BASE, -1, 1 << 64)
#: The hash of null.
NULL: Final = 0xA24BAED4963EE407
#: Shifts and factors of `mixed`.
MIXING: Final = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))
_TEXTS: Final = 1 << 16


def hashes(keys: pl.DataFrame) -> Array:
    """The hash of each row of keys."""
    combined = np.zeros(keys.height, np.uint64)
    for column in keys.get_columns():
        combined = mixed(combined * np.uint64(BASE) + _column(column))
    return combined


def _column(column: pl.Series) -> Array:
    if column.null_count():
        filled = np.full(len(column), NULL, np.uint64)
        present = column.is_not_null().to_numpy()
        filled[present] = _column(column.drop_nulls())
        return filled
    kind = column.dtype
    if kind.is_nested():
        return text_hashes(packed(column))
    if kind.is_float():
        column = column.fill_nan(float("nan")).cast(pl.Float64)
        return mixed(column.set(column == 0, 0.0).to_numpy().view(np.uint64))
    if kind.is_integer() or kind.is_temporal() or kind == pl.Boolean:
        return mixed(column.to_physical().cast(pl.Int64).to_numpy().view(np.uint64))
    return text_hashes(column if kind in (pl.String, pl.Binary) else column.cast(pl.String))


def text_hashes(texts: pl.Series) -> Array:
    """The hashes of texts or bytes, none of them null."""
    parts = [_of_few(texts[begin : begin + _TEXTS]) for begin in range(0, len(texts), _TEXTS)]
    return np.concatenate([np.zeros(0, np.uint64), *parts])


def _of_few(texts: pl.Series) -> Array:
    """A polynomial in the texts' bytes, for all of them at once: differences of one running sum."""
    array = texts.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    _, ends, data = array.buffers()
    place = np.frombuffer(ends, np.int64)[array.offset : array.offset + len(array) + 1]
    first, size = place[0], int(place[-1] - place[0])
    place = place - first
    held = np.frombuffer(data, np.uint8)[first : first + size] if size else np.zeros(0, np.uint8)
    powers = np.cumprod(np.full(size, BASE, np.uint64), dtype=np.uint64)
    undone = np.cumprod(np.full(size, _RECIPROCAL, np.uint64), dtype=np.uint64)
    undone = np.concatenate([np.ones(1, np.uint64), undone])
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum((held.astype(np.uint64) + 1) * powers, dtype=np.uint64)])
    polynomials: Array = (sums[place[1:]] - sums[place[:-1]]) * undone[place[:-1]]
    return mixed(polynomials)


def mixed(numbers: Array) -> Array:
    """Spreads numbers of 64 bits over all of theirs, one to one (splitmix64)."""
    for shift, factor in MIXING:
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    return numbers
