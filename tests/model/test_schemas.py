"""Schemas from dataclasses, Pydantic models, Spark's StructType and Arrow."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

import pyarrow as pa
import pytest
from pydantic import BaseModel

import penstock as ps
from penstock.model.types import Schema


class Country(Enum):
    CH = "ch"
    AT = "at"


@dataclass
class Address:
    street: str
    number: int


@dataclass
class Order:
    item: str
    price: Annotated[Decimal, "decimal(10,2)"]
    amount: int | None
    rate: float
    gift: bool
    raw: bytes
    at: datetime
    day: date
    tags: list[str]
    counts: dict[str, int]
    country: Country
    kind: Literal["new", "old"]
    order: UUID
    ship_to: Address


class Visit(BaseModel):
    page: str
    ms: int | None = None
    at: datetime
    parts: tuple[float, ...] = ()


def test_a_dataclass_is_a_schema():
    assert Schema.parse(Order).ddl() == (
        "item string, price decimal(10,2), amount bigint, rate double, gift boolean, raw binary, at timestamp, "
        "day date, tags array<string>, counts map<string,bigint>, country string, kind string, order string, "
        "ship_to struct<street:string,number:bigint>"
    )


def test_a_pydantic_model_is_a_schema():
    visits = ps.stream("visits", schema=Visit, event_time="at", watermark=ps.bounded("1 second"))
    assert visits.schema.ddl() == "page string, ms bigint, at timestamp, parts array<double>"


def test_a_schema_of_arrow_is_a_schema():
    schema = pa.schema({
        "a": pa.int32(), "b": pa.large_string(), "c": pa.timestamp("ns", "UTC"), "d": pa.decimal128(12, 3),
        "e": pa.list_(pa.int8()), "f": pa.map_(pa.string(), pa.float64()), "g": pa.struct({"x": pa.bool_()}),
        "h": pa.dictionary(pa.int32(), pa.string()), "i": pa.date32(), "j": pa.uint32(),
    })  # fmt: skip
    assert Schema.parse(schema).ddl() == (
        "a int, b string, c timestamp, d decimal(12,3), e array<tinyint>, f map<string,double>, g struct<x:boolean>, "
        "h string, i date, j bigint"
    )
    with pytest.raises(ps.DefinitionError, match="no type for Arrow's duration"):
        Schema.parse(pa.schema({"a": pa.duration("s")}))


def test_a_struct_type_of_spark_is_a_schema():
    from pyspark.sql.types import ArrayType, DecimalType, LongType, StringType, StructType, TimestampType

    struct = StructType().add("a", LongType()).add("b", ArrayType(StringType())).add("c", DecimalType(5, 1))
    struct = struct.add("d", StructType().add("At", TimestampType()))
    assert Schema.parse(struct).ddl() == "a bigint, b array<string>, c decimal(5,1), d struct<At:timestamp>"


@dataclass
class Vague:
    price: Decimal


@dataclass
class Torn:
    either: int | str


@dataclass
class Odd:
    thing: object


@pytest.mark.parametrize(
    ("described", "message"),
    [
        (Vague, r"Vague\.price is a Decimal of unknown precision(.|\n)*Annotated\[Decimal"),
        (Torn, r"Torn\.either may be of several types"),
        (Odd, r"Odd\.thing: no type of a column is known for object"),
        (int, "the class int describes no columns(.|\n)*a dataclass"),
        (7, "not a schema: 7(.|\n)*a dataclass"),
        (["a string"], "not a schema"),
    ],
)
def test_what_describes_no_columns_is_an_error(described: Any, message: str):
    with pytest.raises(ps.DefinitionError, match=message):
        Schema.parse(described)


def test_functions_give_rows_of_a_dataclass():
    lines = ps.stream("lines", schema="line string")
    assert lines.map(lambda row: row, schema=Address).schema == Schema.parse("street string, number bigint")
