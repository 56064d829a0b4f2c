"""The versions of a model as its stream remembers them: in the store, written by the commit of the epoch.

The arrays of a version are one value. A keyed part has a value for each key, as of the newest version; beside it each
of the last versions has what its keys had before, so that those can still be read.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

import msgpack
import numpy as np
import polars as pl

from penstock.errors import unknown
from penstock.kernel.expressions import dtype
from penstock.learning.definition import Learning
from penstock.learning.errors import LearningError, one_line
from penstock.learning.weights import Array, Weights
from penstock.model.time import Instant, to_datetime

#: The parts of what is remembered; those of keyed parts begin with 'key '.
HEAD, VERSION, WAS, KEY = "head", "version", "was", "key "


class Recall(Protocol):
    """Where versions are remembered."""

    def of(self, part: str, keys: Iterable[bytes]) -> dict[bytes, bytes]: ...

    def all(self, part: str | None = None) -> pl.DataFrame: ...


@dataclass(frozen=True)
class Head:
    """The newest version: its number, from how many rows it was learned, and what a key's row looks like."""

    version: int = 0
    rows: int = 0
    keyed: Mapping[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)

    @classmethod
    def load(cls, data: bytes | None) -> Head:
        if data is None:
            return cls()
        version, rows, keyed = msgpack.unpackb(data)
        return cls(version, rows, {part: (kind, tuple(shape)) for part, (kind, shape) in keyed.items()})

    def dump(self) -> bytes:
        keyed = {part: (kind, list(shape)) for part, (kind, shape) in self.keyed.items()}
        return bytes(msgpack.packb((self.version, self.rows, keyed)))


@dataclass(frozen=True)
class Version:
    """A version that is kept: from how many rows it was learned, and when."""

    number: int
    rows: int
    at: datetime


def head(memory: Recall) -> Head:
    return Head.load(memory.of(HEAD, [b""]).get(b""))


def kept(memory: Recall) -> list[Version]:
    """The versions that can be read, in order."""
    versions_kept = []
    for key, value in memory.all(VERSION).select("key", "value").iter_rows():
        rows, now, _ = msgpack.unpackb(value)
        versions_kept.append(Version(_number(key), rows, to_datetime(now)))
    return sorted(versions_kept, key=lambda version: version.number)


def in_force(learning: Learning, memory: Recall, keys: Mapping[str, pl.Series], version: int | None = None) -> Weights:
    """A version's arrays, and its rows of these keys; keys that are new have what `fresh` says."""
    last = head(memory)
    number = last.version if version is None else version
    arrays = plain(memory, last, number)
    if arrays is None:
        arrays = learning.initial
    _check_arrays(learning, arrays)
    weights = dict(arrays)
    for part, part_keys in keys.items():
        weights[part] = _keyed_rows(learning, memory, last, number, part, part_keys)
    return Weights(weights, keys)


def plain(memory: Recall, last: Head, number: int) -> dict[str, Array] | None:
    """The arrays of a version but for its keyed parts; None before the first."""
    data = memory.of(VERSION, [version_key(number)]).get(version_key(number))
    if data is None and (number != 0 or last.version):
        raise unknown("version of the model", str(number), [str(one.number) for one in kept(memory)])
    return (
        None
        if data is None
        else {name: _array(data_of_array) for name, data_of_array in msgpack.unpackb(data)[2].items()}
    )


def keyed_values(memory: Recall, last: Head, number: int, part: str, keys: Sequence[bytes]) -> dict[bytes, Array]:
    """The rows of keys of a keyed part in a version, where they had one."""
    values: dict[bytes, bytes | None] = dict(memory.of(KEY + part, keys))
    wanted = set(keys)
    for before in range(last.version, number, -1):
        values |= {key: was for key, was in _was(memory, before).get(part, {}).items() if key in wanted}
    return _typed(values, last, part)


def all_keyed(memory: Recall, last: Head, number: int, part: str) -> dict[bytes, Array]:
    """The rows of all keys of a keyed part in a version."""
    rows = memory.all(KEY + part).select("key", "value").iter_rows()
    values: dict[bytes, bytes | None] = dict(rows)
    for before in range(last.version, number, -1):
        values |= _was(memory, before).get(part, {})
    return _typed(values, last, part)


def _typed(values: Mapping[bytes, bytes | None], last: Head, part: str) -> dict[bytes, Array]:
    if part not in last.keyed:
        return {}
    kind, shape = last.keyed[part]
    return {key: np.frombuffer(data, kind).reshape(shape) for key, data in values.items() if data is not None}


def _was(memory: Recall, version: int) -> dict[str, dict[bytes, bytes | None]]:
    """What the keys that a version changed had before it."""
    data = memory.of(WAS, [version_key(version)]).get(version_key(version))
    if data is None:
        raise LearningError(
            f"the values of keys before version {version} are no longer kept",
            hint="set versions=… where the model is defined, for more of them",
        )
    return {part: dict(pairs) for part, pairs in msgpack.unpackb(data).items()}


def _keyed_rows(learning: Learning, memory: Recall, last: Head, number: int, part: str, keys: pl.Series) -> Array:
    encoded = encoded_keys(keys)
    known = keyed_values(memory, last, number, part, encoded)
    lacking = [place for place, key in enumerate(encoded) if key not in known]
    new = _fresh(learning, part, keys[lacking]) if lacking or part not in last.keyed else None
    if new is None:
        kind, shape = last.keyed[part]
    else:
        kind, shape = new.dtype.str, new.shape[1:]
    if part in last.keyed and (kind, shape) != last.keyed[part]:
        raise LearningError(
            f"{learning.who}: fresh() gives rows of the part '{part}' in another shape than those in the store",
            detail=f"{shape} of {kind}, and {last.keyed[part][1]} of {last.keyed[part][0]}",
            hint="give the changed model another name",
        )
    array = np.empty((len(keys), *shape), kind)
    for place, key in enumerate(encoded):
        if key in known:
            array[place] = known[key]
    if new is not None and lacking:
        array[lacking] = new
    return array


def _fresh(learning: Learning, part: str, keys: pl.Series) -> Array:
    try:
        array = np.asarray(learning.model.fresh(part, keys))
    except Exception as error:
        raise LearningError(f"{learning.who} fails in fresh for the part '{part}': {one_line(error)}") from error
    if array.ndim < 1 or len(array) != len(keys) or array.dtype.kind not in "fiub":
        raise LearningError(
            f"{learning.who}: fresh() gives an array of shape {array.shape} for {len(keys)} keys of '{part}'",
            hint="one row a key, of numbers",
        )
    return array


def _check_arrays(learning: Learning, arrays: Mapping[str, Array]) -> None:
    """A class that was changed must still fit what it has learned."""
    now, was = (
        {name: (array.shape, array.dtype.str) for name, array in some.items()} for some in (learning.initial, arrays)
    )
    if now != was:
        raise LearningError(
            f"{learning.who} starts with arrays of another shape than those in the store",
            detail=f"{now} and {was}",
            hint="give the changed model another name",
        )


def encoded_keys(keys: pl.Series) -> list[bytes]:
    return [text.encode() for text in keys.cast(pl.String).to_list()]


def decoded_keys(keys: Sequence[bytes], kind: str) -> pl.Series:
    return pl.Series([key.decode() for key in keys], dtype=pl.String).cast(dtype(kind))


def version_key(version: int) -> bytes:
    return version.to_bytes(8, "big")


def _number(key: bytes) -> int:
    return int.from_bytes(key, "big")


def dumped(rows: int, now: Instant, arrays: Mapping[str, Array]) -> bytes:
    return bytes(msgpack.packb((rows, now, {name: _bytes(array) for name, array in arrays.items()})))


def _bytes(array: Array) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array), allow_pickle=False)
    return buffer.getvalue()


def _array(data: bytes) -> Array:
    reader: Callable[..., Any] = np.lib.format.read_array
    return np.asarray(reader(io.BytesIO(data), allow_pickle=False))
