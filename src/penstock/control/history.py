"""Questions to the past that a running app answers, in the Spark session in which its epochs run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from penstock.control.protocol import Reply
from penstock.history.batch.questions import Historian, Moment, Table
from penstock.history.batch.recomputation import Recomputation
from penstock.model.stream import Stream
from penstock.runtime.run import Run
from penstock.sql.history import history
from penstock.sql.statements import History

#: A channel that takes one line an answer takes no more rows than this.
MOST_ROWS = 100_000


def asked(historian: Historian, statement: History, streams: Mapping[str, Stream], views: list[str]) -> pl.DataFrame:
    """The answer to a SELECT over the past."""
    text, present = history(statement, list(streams), views)
    tables = [Table(one.table, one.name.text, Moment(one.by, one.at)) for one in statement.tables]
    answer = pl.from_arrow(historian.ask(text, tables, present))
    assert isinstance(answer, pl.DataFrame)
    return answer


def historian(run: Run, streams: Mapping[str, Stream]) -> Historian:
    """What answers questions to the past of a run, over these streams."""
    views = {name: view.plan.written for name, view in run.views.items()}
    at = Recomputation(run.spark, run.store, streams, views, run.history).at
    return Historian(run.spark, run.store, streams, run.history, at, run.processor_state)


def as_reply(answer: pl.DataFrame) -> Reply:
    """An answer as it travels; of a very long one the beginning."""
    rows: list[tuple[Any, ...]] = answer.head(MOST_ROWS).rows()
    more = answer.height - MOST_ROWS
    return Reply(tuple(answer.columns), tuple(rows), f"{more} more rows are not shown" if more > 0 else "")
