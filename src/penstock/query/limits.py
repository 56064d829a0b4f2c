"""How much a question may take: memory, threads, time, and rows and bytes of its answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """`memory` and `size` are bytes. Without `seconds`, `rows` or `size` there is no such limit."""

    memory: int = 1 << 30
    threads: int = 2
    seconds: float | None = None
    rows: int | None = None
    size: int | None = None
