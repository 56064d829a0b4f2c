"""A join of streams as an operator of the dataflow."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.dataflow.operator import Operator
from penstock.kernel.operators.as_of import AsOfStep
from penstock.kernel.operators.join import JoinStep
from penstock.model.join import StreamJoin
from penstock.model.stream import Flow
from penstock.model.time import Duration, show_duration
from penstock.model.view import View


@dataclass(frozen=True, repr=False)
class JoinOperator(Operator):
    """A join of two flows. `event_time` is that of what comes out: the watermark is held back by what it needs."""

    join: StreamJoin
    event_time: str | None = None

    @property
    def inputs(self) -> tuple[Flow, ...]:
        return self.join.flows

    @property
    def views(self) -> tuple[View, ...]:
        return self.join.view(0), self.join.view(1)

    @property
    def columns(self) -> tuple[tuple[str, ...], ...]:
        return self.join.columns(0), self.join.columns(1)

    @property
    def hold(self) -> Duration | None:
        return self.join.hold(self.event_time)

    @property
    def definition(self) -> str:
        join = self.join
        pairs = " AND ".join(f"{left} = {right}" for left, right in join.on)
        columns = ", ".join(f"{name} {kind}" for name, kind in join.schema)
        if join.as_of:
            gone = "" if join.deleted is None else f", deleted by {join.deleted},"
            return f"a {join.how} join on {pairs} as of the event's time{gone} of ({columns})"
        span = f"from {_signed(join.earliest)} to {_signed(join.latest)}"
        return f"a {join.how} join on {pairs} {span if join.window is None else repr(join.window)} of ({columns})"

    @property
    def versioned(self) -> frozenset[str]:
        return self.join.versioned

    def kernel(self) -> JoinStep | AsOfStep:
        return AsOfStep(self.join) if self.join.as_of else JoinStep(self.join)

    def __repr__(self) -> str:
        return repr(self.join)


def _signed(span: Duration) -> str:
    return f"-{show_duration(-span)}" if span < 0 else show_duration(span)
