"""Damaged files among those that Spark reads, which lie at a URL: found by halves, and one dead letter each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from penstock.sources.base import EXTENT, FILE, MALFORMED, PATH, REASON, ROW

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LONGEST: Final = 300
#: How Spark begins an error that a file is the cause of.
_OF_A_FILE: Final = "FAILED_READ_FILE"
#: What it says where that is not a fault of the file: it may be read later, or with other rights.
_ELSEWHERE: Final = re.compile(
    r"AccessDenied|AccessControl|Forbidden|Unauthorized|credential|UnknownHost|Connect|timed? ?out|Interrupted", re.I
)


def damaged_files(read: Callable[[Sequence[str]], DataFrame], paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The files that cannot be read, each with the reason; raises what is not a fault of a file."""
    if not paths:
        return
    try:
        read(paths).write.format("noop").mode("overwrite").save()
    except Exception as error:
        lines = [line for line in str(error).splitlines() if not line.lstrip().startswith("at ")]
        if _OF_A_FILE not in str(error) or any(map(_ELSEWHERE.search, lines)):
            raise
        if len(paths) == 1:
            yield paths[0], " ".join(str(error).partition("JVM stacktrace")[0].split())[:_LONGEST]
        else:
            half = len(paths) // 2
            yield from damaged_files(read, paths[:half])
            yield from damaged_files(read, paths[half:])


def dead_rows(spark: SparkSession, damaged: Mapping[str, str]) -> DataFrame:
    """A row for each damaged file, as `whole` makes them of files that the tasks read."""
    rows = [
        (path, f"the file cannot be read, and none of its rows count: {reason}", FILE, path, 0)
        for path, reason in damaged.items()
    ]
    columns = (MALFORMED, REASON, EXTENT, PATH)
    return spark.createDataFrame(rows, ", ".join([*(f"`{name}` string" for name in columns), f"`{ROW}` bigint"]))
