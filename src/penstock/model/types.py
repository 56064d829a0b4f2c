"""Column types and schemas, in Spark's words.

>>> Schema.parse("id string, price int, at timestamp").type_of("price")
'int'
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from penstock.errors import DefinitionError, unknown

_ALIASES = {
    "byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "real": "float", "bool": "boolean",
    "str": "string", "varchar": "string", "text": "string", "dec": "decimal(10,0)", "decimal": "decimal(10,0)",
    "numeric": "decimal(10,0)", "bytes": "binary", "timestamp_ltz": "timestamp",
}  # fmt: skip
#: The whole numbers, narrow to wide, with the bits of each.
INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
FLOATS = ("float", "double")
SCALARS = (*INTEGERS, *FLOATS, "boolean", "string", "binary", "date", "timestamp")
_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")


def type_name(text: str) -> str:
    """The canonical spelling of a type.

    >>> type_name("LONG"), type_name("Decimal(10, 2)"), type_name("array<Integer>")
    ('bigint', 'decimal(10,2)', 'array<int>')
    """
    whole = re.sub(r"\s+", "", text)
    name = whole.lower()
    if name.startswith("array<") and name.endswith(">"):
        return f"array<{type_name(whole[6:-1])}>"
    if re.fullmatch(r"(decimal|dec|numeric)\(\d+\)", name):
        name = f"decimal({name.split('(')[1][:-1]},0)"
    name = re.sub(r"^(dec|numeric)\(", "decimal(", name)
    name = _ALIASES.get(name, name)
    match = _DECIMAL.fullmatch(name)
    if match and not 0 < int(match[1]) <= 38:
        raise DefinitionError(f"'{text}': a decimal has 1 to 38 digits")
    if name.startswith(("struct<", "map<")):
        return _nested_name(name.partition("<")[0], whole)
    if name in SCALARS or match:
        return name
    raise DefinitionError(
        f"unknown type '{text}'",
        detail=f"there are: {', '.join(SCALARS)}, decimal(p,s), array<…>, struct<…>, map<…>",
    )


def _nested_name(kind: str, whole: str) -> str:
    """The spelling of a struct or map. The case of a field's name matters where it is read."""
    name = kind + whole[len(kind) :]
    try:
        parts = [(field, type_name(part)) for field, part in fields_of(name)]
    except (DefinitionError, ValueError):
        return name  # with types that only Spark has
    return f"{kind}<{','.join(part if kind == 'map' else f'{field}:{part}' for field, part in parts)}>"


def is_nested(name: str) -> bool:
    """Whether it is an array, a map or a struct."""
    return name.startswith(("array<", "map<", "struct<"))


def has_structs(name: str) -> bool:
    """Whether it is, or holds, a struct or a map: neither stores nor the history keep such columns."""
    return "struct<" in name or "map<" in name


def is_integer(name: str) -> bool:
    return name in INTEGERS


def is_float(name: str) -> bool:
    return name in FLOATS


def is_numeric(name: str) -> bool:
    return name in INTEGERS or name in FLOATS or name.startswith("decimal(")


def decimal_of(name: str) -> tuple[int, int]:
    """Precision and scale of a decimal type."""
    match = _DECIMAL.fullmatch(name)
    if match is None:
        raise DefinitionError(f"'{name}' is not of type decimal")
    return int(match[1]), int(match[2])


def fields_of(name: str) -> tuple[tuple[str, str], ...]:
    """The fields of a struct type, or key and value of a map type, each with its type.

    >>> fields_of("struct<a:int,b:map<string,int>>"), fields_of("map<string,array<int>>")
    ((('a', 'int'), ('b', 'map<string,int>')), (('key', 'string'), ('value', 'array<int>')))
    """
    inner = split_types(name.partition("<")[2].removesuffix(">"))
    if name.startswith("map<"):
        return tuple(zip(("key", "value"), inner, strict=True))
    pairs = [field.partition(":") for field in inner]
    return tuple((field.strip("`"), kind) for field, _, kind in pairs)


@dataclass(frozen=True)
class Schema:
    """Named columns with their types, in order. Names compare as Spark's do: without regard to case."""

    columns: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for name, _ in self.columns:
            if name.lower() in seen:
                raise DefinitionError(f"the column '{name}' is declared twice")
            seen.add(name.lower())

    @classmethod
    def parse(cls, text: SchemaLike) -> Schema:
        """A schema from Spark's DDL, 'name type, name type', or from anything else that describes columns.

        That is a dataclass, a Pydantic model, a `StructType` of Spark or a schema of Arrow.
        """
        if isinstance(text, Schema):
            return text
        if not isinstance(text, str):
            from penstock.model.schemas import columns_of

            return cls(columns_of(text))
        columns = []
        for part in split_types(text):
            plain = re.sub(r"(?i)\s+not\s+null\s*$", "", part.strip())
            words = re.sub(r"^(`[^`]+`|\w+)\s*:", r"\1 ", plain).split(None, 1)
            if len(words) != 2:
                raise DefinitionError(f"not a column: '{part.strip()}'", hint="write 'name type, name type, …'")
            columns.append((words[0].strip("`"), type_name(words[1])))
        return cls(tuple(columns))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)

    def find(self, name: str) -> str:
        """The declared spelling of a column's name."""
        for column, _ in self.columns:
            if column.lower() == name.lower():
                return column
        raise unknown("column", name, self.names)

    def type_of(self, name: str) -> str:
        column = self.find(name)
        return next(kind for known, kind in self.columns if known == column)

    def pick(self, names: Collection[str]) -> Schema:
        """Only these columns, in the order that they have here."""
        return Schema(tuple((name, kind) for name, kind in self.columns if name in names))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and any(column.lower() == name.lower() for column, _ in self.columns)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.columns)

    def ddl(self) -> str:
        return ", ".join(f"{name} {kind}" for name, kind in self.columns)


class SparkSchema(Protocol):
    """A `StructType` of Spark."""

    fields: list[Any]


class ArrowSchema(Protocol):
    """A schema of Arrow."""

    def field(self, i: Any, /) -> Any: ...


#: What a schema is given as: DDL, a dataclass, a Pydantic model, a `StructType` or a schema of Arrow.
SchemaLike: TypeAlias = str | Schema | type | SparkSchema | ArrowSchema


def split_types(text: str) -> list[str]:
    """Splits at the commas that stand outside brackets."""
    parts, depth, start = [], 0, 0
    for i, char in enumerate(text):
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [*parts, text[start:]] if text[start:].strip() else parts
