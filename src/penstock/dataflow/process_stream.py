"""Streams that a processor or a pattern makes of the events of each key."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from penstock.dataflow.process_operator import ProcessOperator
from penstock.model.pattern_processor import Give, processor_of
from penstock.model.patterns import Pattern
from penstock.model.process import Processed, process_of, processed
from penstock.model.processor import Processor
from penstock.model.side_tables import Rows
from penstock.model.stream import Flow, stream
from penstock.model.table import Table
from penstock.model.time import not_negative
from penstock.model.watermarks import Carried, Watermark


def processor_stream(
    name: str,
    flow: Flow,
    processor: type[Processor],
    *,
    by: str | Sequence[str],
    event_time: str | None = None,
    watermark: Watermark | None = None,
    allow_late: str | timedelta = "0 seconds",
    max_ahead: str | timedelta | None = "1 day",
    keep: str | timedelta | None = None,
    hold: str | timedelta | None = None,
    tables: Sequence[Table] = (),
    initial: Rows | None = None,
) -> Processed:
    """A stream of this name with the output of a processor on the events of a flow.

    `by` are its keys: column names or "expression AS name". `event_time` is the time of the rows that it gives out.
    Their watermark is that of the input, held back by the earliest timer that waits, or by `hold` if that is given;
    `watermark` follows the rows themselves instead. Events further behind the watermark than `allow_late` are rejected
    as late.

    Its code looks rows up in `tables`: `self.table("prices").get(event.item)`. A key that comes for the first time
    begins with the row that it has in `initial`, a table or rows with the keys and states as columns.
    """
    keys = (by,) if isinstance(by, str) else tuple(by)
    held = None if hold is None else not_negative(hold, "hold")
    late = not_negative(allow_late, "allow_late")
    process = process_of(flow, processor, keys, late, event_time, held, tables, initial)
    if watermark is None and event_time is not None:
        watermark = Carried()
    output = stream(
        name, ProcessOperator(process), schema=process.schema, event_time=event_time, watermark=watermark,
        max_ahead=max_ahead, keep=keep,
    )  # fmt: skip
    return processed(output, process)


def pattern_stream(
    name: str,
    flow: Flow,
    pattern: Pattern,
    *,
    by: str | Sequence[str],
    output: str,
    give: Give,
    event_time: str | None = None,
    watermark: Watermark | None = None,
    allow_late: str | timedelta = "0 seconds",
    keep: str | timedelta | None = None,
    hold: str | timedelta | None = None,
) -> Processed:
    """A stream of this name with the matches of a pattern in the events of each key.

    `give(key, match)` returns rows of `output` for a match. Events are matched in the order of their times, once
    the watermark has passed them. The rest is as for `process`.
    """
    return processor_stream(
        name, flow, processor_of(pattern, output, give), by=by, event_time=event_time, watermark=watermark,
        allow_late=allow_late, keep=keep, hold=hold,
    )  # fmt: skip
