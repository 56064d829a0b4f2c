"""Schemas from what a program has already: dataclasses, Pydantic models, Spark's StructType, schemas of Arrow.

>>> from dataclasses import dataclass
>>> from datetime import datetime
>>> @dataclass
... class Order:
...     item: str
...     price: float | None
...     at: datetime
>>> columns_of(Order)
(('item', 'string'), ('price', 'double'), ('at', 'timestamp'))
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Final
from uuid import UUID

from penstock.errors import DefinitionError
from penstock.model.types import SchemaLike, type_name

Columns = tuple[tuple[str, str], ...]
_HINT: Final = (
    "give DDL text ('item string, at timestamp'), a dataclass, a Pydantic model, a StructType or a pyarrow.Schema"
)
#: Python's types, the special ones first: a bool is an int, and a datetime is a date.
_PYTHON: Final[tuple[tuple[type, str], ...]] = (
    (bool, "boolean"), (int, "bigint"), (float, "double"), (str, "string"), (bytes, "binary"), (datetime, "timestamp"),
    (date, "date"), (UUID, "string"),
)  # fmt: skip
#: Arrow's types by their names, where Spark's DDL has another one.
_ARROW: Final = {
    "int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "uint8": "smallint", "uint16": "int",
    "uint32": "bigint", "halffloat": "float", "float": "float", "double": "double", "bool": "boolean",
    "string": "string", "large_string": "string", "string_view": "string", "binary": "binary",
    "large_binary": "binary", "binary_view": "binary", "date32[day]": "date",
}  # fmt: skip


def columns_of(described: SchemaLike) -> Columns:
    """The columns that something describes, each with its type in Spark's words."""
    if isinstance(described, type):
        return tuple(_fields(described))
    if type(described).__name__ == "StructType":
        fields = typing.cast(Any, described).fields
        return tuple((field.name, type_name(field.dataType.simpleString())) for field in fields)
    if type(described).__module__.startswith("pyarrow"):
        return tuple((field.name, arrow_type(field.type)) for field in typing.cast(Any, described))
    raise DefinitionError(f"not a schema: {described!r}", hint=_HINT)


def _fields(described: type) -> Iterator[tuple[str, str]]:
    """The fields of a dataclass or of a Pydantic model, in order."""
    if dataclasses.is_dataclass(described):
        names = [field.name for field in dataclasses.fields(described)]
    elif isinstance(models := getattr(described, "model_fields", None), Mapping):
        names = list(models)
    else:
        raise DefinitionError(f"the class {described.__name__} describes no columns", hint=_HINT)
    try:
        hints = typing.get_type_hints(described, include_extras=True)
    except NameError as error:
        raise DefinitionError(
            f"the types of {described.__name__} cannot be read: {error}",
            hint="define the types that it names at the top of a module",
        ) from None
    for name in names:
        yield name, python_type(hints[name], f"{described.__name__}.{name}")


def python_type(hint: Any, where: str) -> str:
    """The type of a column that holds values of a Python type. Any column may be null: `X | None` is X.

    >>> python_type(dict[str, list[int]], "tags")
    'map<string,array<bigint>>'
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        named = [extra for extra in arguments[1:] if isinstance(extra, str)]
        return type_name(named[0]) if named else python_type(arguments[0], where)
    if origin in (typing.Union, types.UnionType):
        known = [part for part in arguments if part is not type(None)]
        if len(known) == 1:
            return python_type(known[0], where)
        raise DefinitionError(f"{where} may be of several types: {hint}", hint="a column has one type, or None")
    if origin is typing.Literal:
        return python_type(type(arguments[0]), where)
    if origin in (list, tuple, set, frozenset, Sequence) and arguments:
        return f"array<{python_type(arguments[0], where)}>"
    if origin in (dict, Mapping) and len(arguments) == 2:
        return f"map<{python_type(arguments[0], where)},{python_type(arguments[1], where)}>"
    if isinstance(hint, type):
        return _class_type(hint, where)
    raise _unknown(hint, where)


def _class_type(hint: type, where: str) -> str:
    if issubclass(hint, Enum):
        kinds = {type(member.value) for member in hint}
        return python_type(kinds.pop(), where) if len(kinds) == 1 else "string"
    for known, name in _PYTHON:
        if issubclass(hint, known):
            return name
    if issubclass(hint, Decimal):
        raise DefinitionError(
            f"{where} is a Decimal of unknown precision", hint='write Annotated[Decimal, "decimal(10,2)"]'
        )
    if dataclasses.is_dataclass(hint) or hasattr(hint, "model_fields"):
        return f"struct<{','.join(f'{name}:{kind}' for name, kind in _fields(hint))}>"
    raise _unknown(hint, where)


def arrow_type(kind: Any) -> str:
    """The type of a column that holds values of a type of Arrow. It goes by names: the model does without Arrow."""
    name = str(kind)
    match re.split(r"[<(\[]", name, maxsplit=1)[0]:
        case "timestamp":
            return "timestamp"
        case "decimal32" | "decimal64" | "decimal128" | "decimal256":
            return type_name(f"decimal({kind.precision},{kind.scale})")
        case "list" | "large_list" | "fixed_size_list" | "list_view":
            return f"array<{arrow_type(kind.value_type)}>"
        case "map":
            return f"map<{arrow_type(kind.key_type)},{arrow_type(kind.item_type)}>"
        case "struct":
            fields = [kind.field(number) for number in range(kind.num_fields)]
            return f"struct<{','.join(f'{field.name}:{arrow_type(field.type)}' for field in fields)}>"
        case "dictionary":
            return arrow_type(kind.value_type)
    if name in _ARROW:
        return _ARROW[name]
    raise DefinitionError(f"Spark has no type for Arrow's {name}", hint="cast the column first")


def _unknown(hint: Any, where: str) -> DefinitionError:
    shown = hint.__name__ if isinstance(hint, type) else hint
    return DefinitionError(
        f"{where}: no type of a column is known for {shown}",
        hint='write Annotated[…, "string"] with the type in Spark\'s words',
    )
