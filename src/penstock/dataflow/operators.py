"""Which operator gives a stream."""

from __future__ import annotations

from penstock.dataflow.join_operator import JoinOperator
from penstock.dataflow.operator import Operator
from penstock.dataflow.operator import input_name as input_name
from penstock.dataflow.operator import read_by as read_by
from penstock.model.join import StreamJoin
from penstock.model.stream import Stream


def operator_of(stream: Stream) -> Operator | None:
    """The operator that gives a stream; None for any other stream."""
    if isinstance(stream.log, StreamJoin):
        return JoinOperator(stream.log, stream.event_time)
    return stream.log if isinstance(stream.log, Operator) else None
