"""The next version of a model: what an epoch has learned, merged, and what the stream remembers from there on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgpack
import numpy as np
import polars as pl

from penstock.learning.definition import Learning
from penstock.learning.errors import LearningError, one_line
from penstock.learning.merging import Update
from penstock.learning.versions import HEAD, KEY, VERSION, WAS, Head, Recall, dumped, encoded_keys, head, version_key
from penstock.learning.weights import Weights
from penstock.model.time import Instant

#: What is to be remembered; without a value the key is forgotten.
CHANGES: Final = {"part": pl.String(), "key": pl.Binary(), "value": pl.Binary()}


def merged(learning: Learning, model: Weights, updates: Sequence[Update]) -> Weights:
    """The new values, as `merge` has them: of the same names, forms and types."""
    try:
        with np.errstate(all="ignore"):
            merged_arrays = dict(learning.model.merge(model, updates))
        arrays = {}
        for name, array in merged_arrays.items():
            arrays[name] = np.asarray(array).astype(model[name].dtype)
            if arrays[name].shape != model[name].shape:
                raise LearningError(f"'{name}' becomes {arrays[name].shape} and was {model[name].shape}")
            if arrays[name].dtype.kind == "f" and not np.isfinite(arrays[name]).all():
                raise LearningError(f"'{name}' becomes infinite or NaN", hint="use a smaller learning rate")
    except LearningError as error:
        raise LearningError(f"{learning.who} fails in merge: {error.message}", hint=error.hint) from error
    except Exception as error:
        raise LearningError(f"{learning.who} fails in merge: {one_line(error)}") from error
    return model.changed(arrays)


def remembered(
    learning: Learning, memory: Recall, model: Weights, updates: Sequence[Update], now: Instant
) -> tuple[Head, pl.DataFrame]:
    """What an epoch that has learned something makes of the versions."""
    last = head(memory)
    new = merged(learning, model, updates)
    keyed = {part: (new[part].dtype.str, new[part].shape[1:]) for part in learning.keyed}
    then = Head(last.version + 1, last.rows + sum(update.rows for update in updates), {**last.keyed, **keyed})
    rows: list[tuple[str, bytes, bytes | None]] = [(HEAD, b"", then.dump())]
    if not last.version:
        rows.append((VERSION, version_key(0), dumped(0, now, {name: model[name] for name in learning.initial})))
    arrays = {name: new[name] for name in learning.initial}
    rows.append((VERSION, version_key(then.version), dumped(then.rows, now, arrays)))
    if learning.keyed:
        rows += _changed_keys(memory, learning, new, then.version)
    rows += [(part, version_key(number), None) for part, number in _outdated(learning, then.version)]
    return then, pl.DataFrame(rows, CHANGES, orient="row")


def _changed_keys(memory: Recall, learning: Learning, new: Weights, version: int) -> Iterable[tuple[str, bytes, bytes]]:
    was: dict[str, list[tuple[bytes, bytes | None]]] = {}
    for part in learning.keyed:
        keys = encoded_keys(new.keys_of[part])
        before = memory.of(KEY + part, keys)
        values = [row.tobytes() for row in new[part]]
        changed = [(key, value) for key, value in zip(keys, values, strict=True) if before.get(key) != value]
        was[part] = [(key, before.get(key)) for key, _ in changed]
        for key, value in changed:
            yield KEY + part, key, value
    yield WAS, version_key(version), bytes(msgpack.packb(was))


def _outdated(learning: Learning, version: int) -> Iterable[tuple[str, int]]:
    """What a new version pushes out. Of a model with keyed parts old versions would be no use without their keys."""
    old = version - learning.versions
    if old >= 0 and (learning.keyed or old % learning.every):
        yield VERSION, old
    if learning.keyed and old >= 0:
        yield WAS, old + 1
