"""The result of a kernel function: a column of values and, if it can fail, where and why.

>>> import polars as pl
>>> Outcome(pl.col("a") + 1).fails is None
True
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import polars as pl


@dataclass(frozen=True)
class Outcome:
    """Values, and a condition that holds on the rows that fail for the reason. A null condition is not a failure."""

    value: pl.Expr
    fails: pl.Expr | None = None
    reason: str | pl.Expr = ""


#: From the call and the columns of its arguments.
Rule: TypeAlias = Callable[..., Outcome | pl.Expr]


def outcome(result: Any) -> Outcome:
    """A bare expression is an outcome that cannot fail."""
    return result if isinstance(result, Outcome) else Outcome(result)
