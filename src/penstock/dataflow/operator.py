"""A keyed operator other than a view: what it reads, what it keeps, and the stream that it gives.

An operator is the `log` of the stream that it gives. It runs in the epochs of its inputs, and has no query of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final

from penstock.kernel.operators.base import KernelOperator
from penstock.model.changes import Changes, origins
from penstock.model.stream import Flow, Stream
from penstock.model.table import Snapshot, Table
from penstock.model.time import Duration
from penstock.model.view import View

#: The counters of an operator: rows that came to it, and how many of them were too late for it.
INPUTS: Final = "inputs"
LATE_INPUTS: Final = "late_inputs"


class Operator(ABC):
    """A join of streams, a processor or a pattern, as a definition."""

    @property
    @abstractmethod
    def inputs(self) -> tuple[Flow, ...]:
        """The flows that it reads."""

    @property
    @abstractmethod
    def views(self) -> tuple[View, ...]:
        """What comes to it from each input, as the model has it: its keys, and every column as an input."""

    @property
    def columns(self) -> tuple[tuple[str, ...], ...]:
        """The columns of each input that it reads, in the order of the view's aggregates."""
        return tuple(() if flow.schema is None else flow.schema.names for flow in self.inputs)

    @property
    @abstractmethod
    def hold(self) -> Duration | None:
        """How far the watermark of its output lies behind that of its inputs. None: its next timer says so."""

    @property
    @abstractmethod
    def definition(self) -> str:
        """What must stay the same for its state to be used again."""

    @property
    def runs_code(self) -> bool:
        """Whether it calls users' Python code."""
        return False

    @property
    def tables(self) -> Mapping[str, Table]:
        """The tables that its code looks rows up in, by name."""
        return {}

    @property
    def versioned(self) -> frozenset[str]:
        """The streams that it reads as tables with versions: while one is idle, it does not hold back the others."""
        return frozenset()

    def with_tables(self, kernel: KernelOperator, versions: Mapping[str, Snapshot]) -> KernelOperator:
        """Its kernel with these versions of its tables."""
        return kernel

    @abstractmethod
    def kernel(self) -> KernelOperator:
        """The operator on columns."""


def read_by(operator: Operator) -> tuple[Stream, ...]:
    """The streams that an operator reads, each once; for a view's changes, those at the far end of the view."""
    streams: dict[str, Stream] = {}
    for flow in operator.inputs:
        for source in flow.sources:
            for stream in origins(source.of) if isinstance(source, Changes) else (source,):
                streams.setdefault(stream.name, stream)
    return tuple(streams.values())


def input_name(stream: str, number: int) -> str:
    """The name of an operator's input among the views of a group. No view has such a name."""
    return f"{stream}<{number}"
