"""Rows on which Spark's part of an epoch fails, found by cutting the epoch into halves again and again.

One such row must not stop its stream. A search runs the failing part alone, on ranges of numbered rows: about
log n small jobs for each culprit among n rows. A job that fails without any row, or on very many, has another cause.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from penstock.kernel.offsets import spark_number, spark_task_sql
from penstock.runtime.epoch.task import NUMBER
from penstock.runtime.errors import RunError, essence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: An epoch with more culprits than this stops its stream: then it is the code, or all of the input, that is wrong.
MOST_CULPRITS: Final = 100

#: Given rows and the names of some parts, the frame that computes these parts of them.
Parts = Callable[["DataFrame", Sequence[str]], "DataFrame"]


@dataclass(frozen=True)
class Culprit:
    """A row, by its number, the part that fails on it, and the line of the error that says why."""

    number: int
    part: str
    reason: str


def numbered(frame: DataFrame) -> DataFrame:
    """Rows with numbers, which follow their order in the frame's tasks. Kept, so that they stay what they are."""
    from pyspark.sql import functions as f

    return frame.withColumn(NUMBER, f.monotonically_increasing_id()).persist()


def culprits(rows: DataFrame, texts: Mapping[str, str], parts: Parts, most: int = MOST_CULPRITS) -> list[Culprit]:
    """The rows of a numbered frame on which parts fail; none if nothing fails when it is tried again.

    `texts` are the parts by their names, as errors show them. More than `most` culprits are an error.
    """
    return _Search(rows, texts, parts, most).search()


@contextmanager
def quiet() -> Iterator[None]:
    """Spark's client logs each error that it passes on, with its Java stack. Errors that are handled need no log."""
    logger = logging.getLogger("SQLQueryContextLogger")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


class _Search:
    def __init__(self, rows: DataFrame, texts: Mapping[str, str], parts: Parts, most: int) -> None:
        from pyspark.sql import functions as f

        self._rows, self._texts, self._parts, self._most = rows, texts, parts, most
        self._culprits: list[Culprit] = []
        task = f.expr(spark_task_sql(NUMBER))
        counts = {int(row[0]): int(row[1]) for row in rows.groupBy(task).count().collect()}
        self._tasks = sorted(counts)
        self._ends = list(accumulate(counts[task] for task in self._tasks))

    def search(self) -> list[Culprit]:
        """Part by part: the first one that fails among those that are left, and its rows."""
        names = list(self._texts)
        count = self._ends[-1] if self._ends else 0
        error = self._fails(names, 0, count)
        if error is not None and (not count or self._fails(names, 0, 0) is not None):
            failing = [self._texts[name] for name in names if self._fails([name], 0, 0) is not None]
            which = f"'{failing[0]}'" if failing else "an expression"
            raise RunError(f"{which} fails, whatever the rows are", detail=essence(error)) from error
        while error is not None:
            low, high = 0, len(names)
            while high - low > 1:
                middle = (low + high) // 2
                if self._fails(names[low:middle], 0, count) is None:
                    low = middle
                else:
                    high = middle
            self._find_rows(names[low], count)
            names = names[low + 1 :]
            error = self._fails(names, 0, count) if names else None
        return self._culprits

    def _find_rows(self, name: str, count: int) -> None:
        """Row by row: the first one that fails among those that are left, until those pass."""
        start = 0
        while start < count and self._fails([name], start, count) is not None:
            low, high, error = start, count, None
            while high - low > 1:
                middle = (low + high) // 2
                failure = self._fails([name], low, middle)
                if failure is None:
                    low = middle
                else:
                    high, error = middle, failure if middle - low == 1 else None
            error = error or self._fails([name], low, low + 1)
            if error is None:
                return  # the error does not come again: this row does not cause it
            self._note(low, name, error)
            start = low + 1

    def _note(self, index: int, name: str, error: BaseException) -> None:
        self._culprits.append(Culprit(self._number(index), name, essence(error)))
        if len(self._culprits) > self._most:
            raise RunError(
                f"'{self._texts[name]}' fails on more than {self._most} rows of one epoch",
                detail=f"for example: {self._culprits[0].reason}",
                hint="correct the expression or the function, or guard it against such rows",
            ) from error

    def _fails(self, names: list[str], start: int, end: int) -> BaseException | None:
        """The error of parts on a range of rows."""
        from pyspark.sql import functions as f

        low, high = self._number(start), self._number(end)
        some = self._rows.filter((f.col(NUMBER) >= low) & (f.col(NUMBER) < high))
        try:
            with quiet():
                self._parts(some, names).write.format("noop").mode("overwrite").save()
        except RunError:
            raise
        except Exception as error:
            return error
        return None

    def _number(self, index: int) -> int:
        """The number of the row that stands at a place among all rows; after the last one, the first free number."""
        if not self._ends:
            return 0
        if index >= self._ends[-1]:
            return spark_number(self._tasks[-1] + 1, 0)
        task = bisect_right(self._ends, index)
        return spark_number(self._tasks[task], index - (self._ends[task - 1] if task else 0))
