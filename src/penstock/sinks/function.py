"""A sink that is a Python function of the user: it gets rows as a list of dictionaries, at least once.

After a failure or a restart the same panes may come again, with the same ids in the column `pane`: a function that
must count them once keeps the largest id that it has seen, together with what it writes.

>>> to_function(print, mode="append")
ps.to_function(print, mode='append')
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.errors import DefinitionError
from penstock.model.naming import function_name
from penstock.sinks.base import Batch, Mode, OpenSink, Sink, Target, above_zero
from penstock.sinks.rows import Row

_ROWS = 1_000


@dataclass(frozen=True, repr=False)
class Function(Sink):
    """Calls `function` with up to `batch` rows at once; what it raises makes the same rows come again."""

    function: Callable[[list[Row]], Any]
    batch: int = _ROWS

    @property
    def rows(self) -> int:
        return self.batch

    def open(self, target: Target) -> OpenSink:
        return _Calling(self.function)

    def __repr__(self) -> str:
        arguments = [f"batch={self.batch}"] if self.batch != _ROWS else []
        return self.show("to_function", function_name(self.function), *arguments)


class _Calling(OpenSink):
    def __init__(self, function: Callable[[list[Row]], Any]) -> None:
        self._function = function

    def take(self, batch: Batch) -> None:
        self._function(list(batch.rows))


def to_function(function: Callable[[list[Row]], Any], *, batch: int = _ROWS, mode: Mode = "panes") -> Function:
    """Calls a function with rows. It runs in a thread of its own; in the mode `complete` it gets the whole table."""
    if not callable(function):
        raise DefinitionError(f"not a function: {function!r}", hint="give one that takes a list of dictionaries")
    above_zero(batch, "the batch of a function")
    return Function(function, batch, mode=mode)
