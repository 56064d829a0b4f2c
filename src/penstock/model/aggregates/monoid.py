"""Any aggregate of the user's own: a zero, a lift, a commutative and associative merge, and what to present.

>>> longest = monoid("longest", "text", lift=len, merge=max, zero=0, result_type="int", samples=["a", "bb", ""])
>>> longest
ps.monoid('longest', 'text', lift=len, merge=max, zero=0, result_type='int')
>>> monoid("joined", "text", lift=str, merge=lambda a, b: a + b, zero="", samples=["a", "b"])
Traceback (most recent call last):
penstock.errors.DefinitionError: the monoid 'joined' is not commutative
  detail: a = 'a', b = 'b', merge(a, b) = 'ab', merge(b, a) = 'ba'
  hint: rows arrive in any order: keep the order in the partial, sort in merge, or use ps.collect_list
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from penstock.errors import DefinitionError
from penstock.model.aggregates import laws
from penstock.model.aggregates.base import Aggregate, Origin, Value
from penstock.model.expressions import Sql, sql_text
from penstock.model.naming import function_identity, function_name
from penstock.model.types import type_name


@dataclass(frozen=True, repr=False)
class Monoid(Aggregate):
    """A user's monoid. Rows in which an input is null are skipped; `coalesce` in the input's text lets them in."""

    word: ClassVar[str] = "monoid"

    name: str
    texts: tuple[str, ...]
    result: str
    #: Functions compare by name, as two imports of one module make two of them; partials do not compare at all.
    lifting: Callable[..., Any] = field(compare=False)
    merging: Callable[[Any, Any], Any] = field(compare=False)
    empty: Any = field(compare=False)
    presenting: Callable[[Any], Any] | None = field(compare=False, default=None)
    inverting: Callable[[Any], Any] | None = field(compare=False, default=None)
    encoding: Callable[[Any], str | bytes] | None = field(compare=False, default=None)
    decoding: Callable[[Any], Any] | None = field(compare=False, default=None)
    samples: tuple[tuple[Value, ...], ...] | None = field(compare=False, default=None)
    functions: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.encoding is None) != (self.decoding is None):
            raise DefinitionError(
                f"the monoid '{self.name}' needs both encode and decode, or neither", hint="the default is JSON"
            )
        names = (f"{word}={_qualified(function)}" for word, function in self._functions())
        object.__setattr__(self, "functions", tuple(names))
        if self.samples is not None:
            laws.check(self, self.samples)

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.texts

    def result_type(self, types: tuple[str, ...]) -> str:
        return self.result

    def check(self, types: tuple[str, ...]) -> None:
        """Checks the laws on values of these types, unless samples were given and checked; the view calls it."""
        if self.samples is None:
            laws.check(self, laws.sample_rows(types))

    def zero(self) -> Any:
        return self.empty

    def lift(self, values: tuple[Value, ...], origin: Origin) -> Any:
        return self.empty if any(value is None for value in values) else self.lifting(*values)

    def merge(self, a: Any, b: Any) -> Any:
        return self.merging(a, b)

    def inverse(self, p: Any) -> Any:
        return super().inverse(p) if self.inverting is None else self.inverting(p)

    def present(self, p: Any) -> Value:
        return p if self.presenting is None else self.presenting(p)

    def encode(self, p: Any) -> str | bytes:
        """The partial as it is stored."""
        return json.dumps(p) if self.encoding is None else self.encoding(p)

    def decode(self, stored: str | bytes) -> Any:
        """The partial back from the store."""
        return json.loads(stored) if self.decoding is None else self.decoding(stored)

    def retractable(self) -> Monoid:
        if self.inverting is None:
            raise DefinitionError(
                f"the monoid '{self.name}' cannot take retractions: it has no inverse",
                hint="give inverse=, a function with merge(p, inverse(p)) == zero",
            )
        return self

    def describe(self) -> str:
        """As the repr, with a digest of each function's code."""
        functions = (f"{word}={function_identity(function)}" for word, function in self._functions())
        return f"{self!r} {' '.join(functions)}"

    def _functions(self) -> Iterable[tuple[str, Callable[..., Any]]]:
        words = ("lift", "merge", "present", "inverse", "encode", "decode")
        functions = (self.lifting, self.merging, self.presenting, self.inverting, self.encoding, self.decoding)
        return ((word, function) for word, function in zip(words, functions, strict=True) if function is not None)

    def _arguments(self) -> Iterable[str]:
        yield from (repr(self.name), *map(repr, self.texts))
        for word, function in self._functions():
            yield f"{word}={function_name(function)}"
            if word == "merge":
                yield f"zero={self.empty!r}"
        if self.result != "string":
            yield f"result_type={self.result!r}"
        if self.where is not None:
            yield f"where={self.where!r}"


def _qualified(function: Callable[..., Any]) -> str:
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__qualname__)}"


def monoid(
    name: str,
    *x: Sql,
    lift: Callable[..., Any],
    merge: Callable[[Any, Any], Any],
    zero: Any,
    present: Callable[[Any], Any] | None = None,
    inverse: Callable[[Any], Any] | None = None,
    encode: Callable[[Any], str | bytes] | None = None,
    decode: Callable[[Any], Any] | None = None,
    samples: Sequence[Any] | None = None,
    result_type: str = "string",
    where: Sql | None = None,
) -> Monoid:
    """An aggregate of your own over the inputs `x`.

    `lift(*values)` makes a partial of one row, `merge(a, b)` one of two without changing them, `present(p)` the answer.
    `merge` must be commutative and associative with `zero` neutral: checked on `samples` (rows of input values), or
    on values of the inputs' types. `encode` and `decode` store a partial as text or bytes; the default is JSON.
    """
    rows = None if samples is None else tuple(row if isinstance(row, tuple) else (row,) for row in samples)
    return Monoid(
        name, tuple(map(sql_text, x)), type_name(result_type), lift, merge, zero, present, inverse, encode, decode,
        rows, where=sql_text(where),
    )  # fmt: skip
