"""The step that makes a row of each element of an array, or of each entry of a map.

>>> import penstock as ps
>>> posts = ps.stream("posts", schema="user string, tags array<string>")
>>> posts.explode("tags AS tag").schema.ddl()
'user string, tags array<string>, tag string'
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from penstock.errors import DefinitionError
from penstock.model.expressions import bind
from penstock.model.naming import valid_name
from penstock.model.stream import Flow, Step
from penstock.model.types import Schema, fields_of

_NAMED = re.compile(r"(?is)(.+?)\s+AS\s+\(?\s*(`?\w+`?(?:\s*,\s*`?\w+`?)?)\s*\)?\s*")


@dataclass(frozen=True, repr=False)
class Explode(Step):
    """Each event as often as an array has elements, with the element as one more column; `outer`: at least once.

    A map gives two columns, key and value. `position` is the name of a column with the number of the element, from 0.
    """

    multiplies: ClassVar[bool] = True

    expression: str
    names: tuple[str, ...]
    outer: bool = False
    position: str | None = None
    schema: Schema | None = field(init=False, compare=False)

    def __post_init__(self) -> None:
        own = self.input.schema
        types = None if own is None else element_types(bind(self.expression, own).type, self.expression)
        object.__setattr__(self, "schema", None if own is None or types is None else self.over(own, types))

    def over(self, own: Schema, elements: tuple[str, ...]) -> Schema:
        """The columns that come out, of those that come in and the types of an element."""
        if len(self.names) != len(elements):
            what = "an array takes one name: AS name" if len(elements) == 1 else "a map takes two: AS key, value"
            raise DefinitionError(f"explode: '{self.expression}' AS {', '.join(self.names)}", hint=what)
        for name in self.made:
            if name in own:
                raise DefinitionError(
                    f"explode: the stream has a column '{name}' already", hint="choose another name after AS"
                )
        number = () if self.position is None else ((self.position, "int"),)
        return Schema((*own, *number, *zip(self.names, elements, strict=True)))

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.expression,)

    @property
    def made(self) -> tuple[str, ...]:
        """The columns that it adds."""
        return self.names if self.position is None else (self.position, *self.names)

    def rows(self, value: Any) -> list[tuple[Any, ...]]:
        """The values of the added columns, for each row that is made of an event."""
        rows: list[tuple[Any, ...]]
        if isinstance(value, Mapping):
            rows = list(value.items())
        else:
            rows = [(element,) for element in value or ()]
        if self.position is not None:
            rows = [(number, *row) for number, row in enumerate(rows)]
        return rows or ([(None,) * len(self.made)] if self.outer else [])

    def __repr__(self) -> str:
        arguments = [repr(f"{self.expression} AS {', '.join(self.names)}")]
        arguments += ["outer=True"] if self.outer else []
        arguments += [f"position={self.position!r}"] if self.position is not None else []
        return f"{self.input!r}.explode({', '.join(arguments)})"


def explode(flow: Flow, text: str, outer: bool, position: str | None) -> Explode:
    """The step that `Flow.explode` makes: 'expression AS name', or 'expression AS key, value' of a map."""
    named = _NAMED.fullmatch(text)
    if named is None:
        raise DefinitionError(f"explode: '{text}' needs a name", hint=f"write explode({f'{text} AS name'!r})")
    names = tuple(name.strip().strip("`") for name in named[2].split(","))
    for name in (*names, *([] if position is None else [position])):
        if not valid_name(name):
            raise DefinitionError(f"explode: '{name}' cannot be a column's name")
    return Explode(flow, named[1].strip(), names, outer, position)


def element_types(kind: str | None, text: str) -> tuple[str, ...] | None:
    """The types of an element: one of an array, two of a map; None where the type is not known."""
    if kind is None:
        return None
    if kind.startswith("array<"):
        return (kind[6:-1],)
    if kind.startswith("map<"):
        return tuple(part for _, part in fields_of(kind))
    raise DefinitionError(
        f"explode: '{text}' is {kind}, and must be an array or a map", hint="split(text, ' ') makes an array of a text"
    )
