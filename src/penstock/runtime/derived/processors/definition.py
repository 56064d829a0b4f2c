"""Streams that a processor or a pattern makes of the events of each key."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from penstock.errors import DefinitionError
from penstock.model.pattern_processor import Give, processor_of
from penstock.model.patterns import Pattern
from penstock.model.process import Processed, process_of, processed
from penstock.model.processor import Processor
from penstock.model.stream import Flow, stream
from penstock.model.time import not_negative
from penstock.model.watermarks import Watermark
from penstock.runtime.derived.processors.source import ProcessorSource


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
    parts: int = 32,
) -> Processed:
    """What a processor makes of the events of a flow, as a stream of this name.

    `by` are its keys: column names or «expression AS name». `event_time` and `watermark` are those of the rows that
    it gives out. Events further behind the watermark than `allow_late` are refused as late. The keys are in `parts`
    parts, each the work of one task at a time; their number stays what it was when the app first ran.
    """
    keys = (by,) if isinstance(by, str) else tuple(by)
    process = process_of(flow, processor, keys, not_negative(allow_late, "allow_late"), event_time)
    if parts < 1:
        raise DefinitionError(f"a processor has at least one part, and not {parts}")
    made = stream(
        name, ProcessorSource(process, parts), schema=process.schema, event_time=event_time, watermark=watermark,
        max_ahead=max_ahead, keep=keep,
    )  # fmt: skip
    return processed(made, process)


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
) -> Processed:
    """The matches of a pattern in the events of each key, as a stream of this name.

    `give(key, match)` makes the rows of `output` of a match. Events are matched in the order of their times, once
    the watermark has passed them. The rest is as for `process`.
    """
    return processor_stream(
        name, flow, processor_of(pattern, output, give), by=by, event_time=event_time, watermark=watermark,
        allow_late=allow_late, keep=keep,
    )  # fmt: skip
