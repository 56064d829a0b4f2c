"""Writes what Spark answers to `tests.query.questions` into answers.json: python -m tests.query.record."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import parse_one

from tests.query.asking import ANSWERS, in_order, written
from tests.query.questions import QUESTIONS
from tests.query.rows import SCHEMAS, arrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def define(spark: SparkSession) -> None:
    """The tables of the tests as temporary views."""
    for name in SCHEMAS:
        table = arrow(name)
        zoned = pa.schema(
            [f.with_type(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(f.type) else f for f in table.schema]
        )
        spark.createDataFrame(table.cast(zoned)).createOrReplaceTempView(name)


def spark_answer(spark: SparkSession, question: str) -> dict[str, object]:
    """Types and rows of Spark's answer."""
    frame = spark.sql(question)
    return shown(question, [kind for _, kind in frame.dtypes], [tuple(row) for row in frame.collect()])


def shown(question: str, types: list[str], rows: list[tuple[object, ...]]) -> dict[str, object]:
    """An answer as it is kept: in the order of rows, if the question has one."""
    return {"types": types, "rows": [written(row) for row in rows] if has_order(question) else in_order(rows)}


def has_order(question: str) -> bool:
    return parse_one(question, read="spark").args.get("order") is not None


def main() -> None:
    from penstock.runtime.spark.session import spark_session

    spark = spark_session("record", master="local[1]", options={"spark.sql.shuffle.partitions": "1"})
    define(spark)
    lines = [f"{json.dumps(one)}: {json.dumps(spark_answer(spark, one), ensure_ascii=False)}" for one in QUESTIONS]
    ANSWERS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    spark.stop()


if __name__ == "__main__":
    main()
