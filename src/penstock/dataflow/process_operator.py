"""A processor or a pattern as an operator of the dataflow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.dataflow.operator import Operator
from penstock.kernel.operators.base import KernelOperator
from penstock.kernel.operators.process import ProcessStep
from penstock.model.process import Process
from penstock.model.stream import Flow
from penstock.model.table import Snapshot, Table
from penstock.model.time import Duration
from penstock.model.view import View


@dataclass(frozen=True, repr=False)
class ProcessOperator(Operator):
    """A processor over a flow."""

    process: Process

    @property
    def inputs(self) -> tuple[Flow, ...]:
        return (self.process.input,)

    @property
    def views(self) -> tuple[View, ...]:
        return (self.process.view,)

    @property
    def hold(self) -> Duration | None:
        return self.process.held

    @property
    def definition(self) -> str:
        """Its keys, and the pattern that it finds: an open match names steps by their number.

        A state that is new begins with its default; one that is gone, or has another type, is left out.
        """
        types, pattern = self.process.shape.key, self.process.processor.finds
        keys = (f"{text} AS {name} {kind}" for (name, text), (_, kind) in zip(self.process.by, types, strict=True))
        kind = "processor" if pattern is None else f"pattern {pattern}"
        return f"a {kind} by ({', '.join(keys)})"

    @property
    def runs_code(self) -> bool:
        return True

    @property
    def tables(self) -> Mapping[str, Table]:
        return self.process.side_tables

    def kernel(self) -> ProcessStep:
        return ProcessStep(self.process)

    def with_tables(self, kernel: KernelOperator, versions: Mapping[str, Snapshot]) -> KernelOperator:
        assert isinstance(kernel, ProcessStep)
        return kernel.with_tables(versions)

    def __repr__(self) -> str:
        return repr(self.process)
