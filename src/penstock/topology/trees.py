"""Trees of tuples that are open: each is one number, however many tuples it has, and what it takes to try it again."""

from __future__ import annotations

import hashlib
import pickle
from dataclasses import dataclass
from typing import Any

from penstock.model.time import Instant


@dataclass(frozen=True)
class Tree:
    """An open tree: the ids of its tuples that are not acked, by XOR; when it times out; and how it began.

    `value` is zero where it is to be tried again.
    """

    value: int
    deadline: Instant
    tries: int
    spout: str
    task: int
    id: Any
    values: tuple[Any, ...]

    def dumped(self) -> bytes:
        fields = (self.value, self.deadline, self.tries, self.spout, self.task, self.id, self.values)
        return pickle.dumps(fields, protocol=5)

    @classmethod
    def loaded(cls, data: bytes) -> Tree:
        return cls(*pickle.loads(data))


def key_of(root: int) -> bytes:
    return root.to_bytes(8, "big")


def root_of(key: bytes) -> int:
    return int.from_bytes(key, "big")


def tick_root(bolt: str, task: int, now: Instant) -> int:
    """The tree that a tick begins."""
    return _hashed(f"tick:{bolt}:{task}:{now}")


def place_root(spout: str, partition: int, offset: int) -> int:
    """The tree that an event of a stream begins, by its place there."""
    return _hashed(f"place:{spout}:{partition}:{offset}")


def next_root(root: int) -> int:
    """The tree of the next try of the same message."""
    return _hashed(f"again:{root}")


def _hashed(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") or 1
