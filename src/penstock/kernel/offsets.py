"""The numbers that Penstock packs several numbers into: made offsets, and the row numbers of Spark.

A log without positions of its own gets offsets of (epoch, task, row); a source of files divides those of an epoch
among its files. Rows that DataFrame code makes of an operator's output get offsets of (commit, task, row), and those
that a view's changes make of (commit, row). `monotonically_increasing_id` of Spark is (task, row).

>>> made_offset(epoch=3, task=2, row=5) - made_offset(epoch=3, task=2)
5
>>> made_offset(3, 2, 1) < made_offset(3, 3) < made_offset(4, 0) < made_offset(retried_epoch(0), 0)
True
>>> change_offset(commit=2), change_offset(2, row=7) - change_offset(2)
(8589934592, 7)
>>> spark_number(task=1, row=4)
8589934596
"""

from __future__ import annotations

from typing import Final

#: Bits of a task's number and of a row's number within its task.
_TASK_BITS: Final = 12
_ROW_BITS: Final = 26
#: The tasks that rows made of one chunk of an operator's output may come from.
_CHUNK_TASKS: Final = 256
#: Bits of a row's number within its commit.
_CHANGE_BITS: Final = 32
#: Bits of the row in a number that Spark gives; the task is above them.
_SPARK_ROW_BITS: Final = 33
#: Rows that DataFrame code makes of retried dead letters have the offsets of epochs from here on.
_RETRIED: Final = 1 << 24


def made_offset(epoch: int, task: int, row: int = 0) -> int:
    """The offset of a row in a log that has none."""
    return (((epoch << _TASK_BITS) + task) << _ROW_BITS) + row


def made_offset_sql(epoch: str, number: str, first_task: int = 0) -> str:
    """The same in Spark SQL, of a row with a number that Spark gave it. Tasks are counted from `first_task`.

    >>> made_offset_sql("3", "n", first_task=5)
    'shiftleft(CAST(3 AS BIGINT), 38) + shiftleft(5 + shiftright(n, 33), 26) + (n & 8589934591L)'
    """
    task = f"shiftleft({first_task} + {spark_task_sql(number)}, {_ROW_BITS})"
    row = f"({number} & {(1 << _SPARK_ROW_BITS) - 1}L)"
    return f"shiftleft(CAST({epoch} AS BIGINT), {_TASK_BITS + _ROW_BITS}) + {task} + {row}"


def chunk_task(chunk: int) -> int:
    """The first task in the offsets of rows that are made of a chunk of an operator's output.

    A chunk has room for 256 tasks, and a commit for 16 chunks; more of them reach into the offsets of the next commit.

    >>> made_offset(3, chunk_task(1)) > made_offset(3, 255), made_offset(3, chunk_task(15) + 255) in epoch_offsets(3)
    (True, True)
    """
    return chunk * _CHUNK_TASKS


def epoch_offsets(epoch: int) -> range:
    """The offsets of all rows of an epoch, in a log that has none.

    >>> made_offset(3, 4095, 17) in epoch_offsets(3), made_offset(4, 0) in epoch_offsets(3)
    (True, False)
    """
    return range(made_offset(epoch, 0), made_offset(epoch + 1, 0))


def retried_epoch(epoch: int) -> int:
    """The epoch in the offsets of rows that are made again of an epoch's dead letters."""
    return epoch + _RETRIED


def change_offset(commit: int, row: int = 0) -> int:
    """The offset of a row among a view's changes."""
    return (commit << _CHANGE_BITS) + row


def spark_number(task: int, row: int) -> int:
    """The number that Spark's `monotonically_increasing_id` gives to a row."""
    return (task << _SPARK_ROW_BITS) + row


def spark_task_sql(number: str) -> str:
    """The task in such a number, in Spark SQL."""
    return f"shiftright({number}, {_SPARK_ROW_BITS})"
