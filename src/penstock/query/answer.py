"""The answer to a question."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.model.types import Schema


@dataclass(frozen=True)
class Answer:
    """The rows of an answer in the types of `schema`, of one commit. `more`: there are more rows than were wanted."""

    schema: Schema
    table: pa.Table
    more: bool = False
    commit: int = 0
