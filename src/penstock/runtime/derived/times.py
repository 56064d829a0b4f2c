"""The times of commits, in the form in which tasks get them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from penstock.model.time import Instant

#: What a row of `commits` stands for, if not for files: what time it was in which commit.
TIME: Final = "time"


@dataclass(frozen=True)
class Time:
    """A commit: when it was, and the watermarks in force when it began and after it."""

    commit: int
    now: Instant
    before: Instant
    after: Instant


def times_of(data: bytes) -> list[Time]:
    """What a row of this kind says."""
    return [Time(**fields) for fields in json.loads(data)]
