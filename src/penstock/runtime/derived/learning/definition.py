"""Streams that a model makes: what it predicts, before it learns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from penstock.learning.definition import learning_of
from penstock.learning.model import Model
from penstock.model.expressions import Sql, sql_text
from penstock.model.stream import Flow, Stream, stream
from penstock.model.watermarks import Watermark
from penstock.runtime.derived.learning.source import LearnerSource


def model_stream(
    name: str,
    flow: Flow,
    model: Model | type[Model],
    *,
    give: str | Sequence[str] = (),
    by: str | None = None,
    train_when: Sql | None = None,
    event_time: str | None = None,
    watermark: Watermark | None = None,
    max_ahead: str | timedelta | None = "1 day",
    keep: str | timedelta | None = None,
    partitions: int = 8,
    versions: int = 10,
    every: int = 1000,
) -> Stream:
    """A stream of this name with a model's predictions for the events of a flow; then the model learns from them.

    A row of it is the columns `give` of an event, what the model predicts, and `version`: the one before the epoch.
    It learns from the events for which the condition `train_when` holds, else from all, in `partitions`: those with the
    same value of the column `by` are in the same one. The last `versions` are kept, and each `every`-th.
    """
    learning = learning_of(
        flow,
        model,
        give,
        by,
        train_when=None if train_when is None else sql_text(train_when),
        partitions=partitions,
        versions=versions,
        every=every,
    )
    return stream(
        name, LearnerSource(learning), schema=learning.schema, event_time=event_time, watermark=watermark,
        max_ahead=max_ahead, keep=keep,
    )  # fmt: skip
