"""Lines from a socket: JSON, CSV or text. Someone listens at the address, and sends a line an event.

>>> socket("localhost", 9999, format="csv")
ps.socket('localhost', 9999, format='csv')

A socket cannot be read again. What was sent and not committed when the app was killed is lost, and what is sent while
it does not run is never read. Everything else in Penstock holds: an event counts once, or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from penstock.errors import DefinitionError, unknown
from penstock.model.types import Schema
from penstock.sources.base import EXTENT, MALFORMED, PART, REASON, Source
from penstock.sources.formats.csv import check_csv
from penstock.sources.formats.lines import MAX_LINE, SHOWN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FORMATS = ("json", "csv", "text")


@dataclass(frozen=True, repr=False)
class Socket(Source):
    """Lines from a socket, read by one process on the driver's machine."""

    host: str
    port: int
    format: str = "json"
    delimiter: str = ","
    max_line: int = MAX_LINE

    replayable: ClassVar[bool] = False

    def check(self, schema: Schema) -> None:
        """Lines of text have one column for the line, and may have one for the time at which it came."""
        if self.format == "csv":
            check_csv(schema)
        kinds = sorted(kind for _, kind in schema)
        if self.format == "text" and kinds not in (["string"], ["string", "timestamp"]):
            raise DefinitionError(
                f"lines of text do not fit the schema '{schema.ddl()}'",
                hint="a string for the line, and perhaps a timestamp for when it came: line string, at timestamp",
            )

    def read(self, spark: SparkSession, schema: Schema, columns: Sequence[str]) -> DataFrame:
        self.check(schema)
        source = spark.readStream.format("socket").option("host", self.host).option("port", self.port)
        lines = source.option("includeTimestamp", "true").load()
        if self.format == "text":
            names = {"string": "value", "timestamp": "timestamp"}
            rows = lines.selectExpr("value", *(f"{names[schema.type_of(name)]} AS `{name}`" for name in columns))
            return rows.select(*columns, *self._refused(None))
        rows = self._parsed(lines.where("trim(value) <> ''"), schema)
        return rows.select(*(f"row.`{name}`" for name in columns), *self._refused(f"row.{MALFORMED}"))

    def _parsed(self, lines: DataFrame, schema: Schema) -> DataFrame:
        from pyspark.sql import functions as F

        ddl = ", ".join(f"`{name}` {kind}" for name, kind in schema)
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": MALFORMED}
        if self.format == "csv":
            row = F.from_csv("value", f"{ddl}, `{MALFORMED}` string", {**options, "sep": self.delimiter})
        else:
            row = F.from_json("value", f"{ddl}, `{MALFORMED}` string", options)
        return lines.select("value", F.when(F.octet_length("value") <= self.max_line, row).alias("row"))

    def _refused(self, malformed: str | None) -> list[Column]:
        """What is kept of a line that is not taken: all of a malformed one, the beginning of one that is too long."""
        from pyspark.sql import functions as F

        length = F.octet_length("value")
        is_long = length > self.max_line
        reason = F.concat(F.lit("the line has "), length, F.lit(f" bytes, more than max_line = {self.max_line}"))
        text = F.when(is_long, F.substring("value", 1, SHOWN))
        return [
            (text if malformed is None else text.otherwise(F.col(malformed))).alias(MALFORMED),
            F.when(is_long, reason).alias(REASON),
            F.when(is_long, F.lit(PART)).alias(EXTENT),
        ]

    def __repr__(self) -> str:
        arguments = [repr(self.host), str(self.port), f"format={self.format!r}"]
        arguments += [f"delimiter={self.delimiter!r}"] if self.delimiter != "," else []
        arguments += [f"max_line={self.max_line}"] if self.max_line != MAX_LINE else []
        return f"ps.socket({', '.join(arguments)})"


def socket(host: str, port: int, *, format: str = "json", delimiter: str = ",", max_line: int = MAX_LINE) -> Socket:
    """Lines from a socket. It cannot be read again: what is in flight when the app is killed is lost.

    A line of more than `max_line` bytes is a dead letter, of which the beginning is kept.
    """
    if format not in FORMATS:
        raise unknown("format of lines", format, FORMATS)
    if not host:
        raise DefinitionError("a socket needs a host", hint="for example ps.socket('localhost', 9999)")
    if not 0 < port < 65536:
        raise DefinitionError(f"{port} cannot be a port", hint="ports go from 1 to 65535")
    if max_line < 1:
        raise DefinitionError(
            f"max_line must be above zero, and is {max_line}", hint="the most bytes that a line may have"
        )
    return Socket(host, port, format, delimiter, max_line)
