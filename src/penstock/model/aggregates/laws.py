"""Checks the laws that a user's monoid must obey, on samples, and shows the rows that break one.

>>> sample_rows(("int", "string"))[1]
(1, 'a')
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NoReturn

from penstock.errors import DefinitionError
from penstock.model.aggregates.base import Origin, Value
from penstock.model.types import INTEGERS, decimal_of

if TYPE_CHECKING:
    from penstock.model.aggregates.monoid import Monoid

_SAMPLES: dict[str, tuple[Value, ...]] = {
    **dict.fromkeys(INTEGERS, (0, 1, -2, 7, 100)),
    "float": (0.0, 1.5, -2.25, 1e10, 0.125),
    "double": (0.0, 1.5, -2.25, 1e10, 0.125),
    "boolean": (False, True),
    "string": ("", "a", "b", "ab", "Zürich"),
    "binary": (b"", b"a", b"b", b"\xff"),
    "date": (0, 1, 19_000),
    "timestamp": (0, 1, 1_700_000_000_000_000),
}
#: How many partials are tried against each other; the triples grow with its cube.
_PARTIALS = 6


def sample_rows(types: tuple[str, ...]) -> list[tuple[Value, ...]]:
    """A few rows of these types. The columns' samples advance at different steps, so that pairs differ."""
    columns = [_samples(name) for name in types]
    return [
        tuple(column[(row + row * place // len(column)) % len(column)] for place, column in enumerate(columns))
        for row in range(8)
    ]


def _samples(name: str) -> tuple[Value, ...]:
    if name.startswith("decimal("):
        scale = decimal_of(name)[1]
        return tuple(Decimal(whole).scaleb(-scale) for whole in (0, 1, -2, 7))
    if name.startswith("array<"):
        elements = _samples(name[6:-1])
        return ([], *([element] for element in elements), list(elements))
    if name not in _SAMPLES:
        raise DefinitionError(f"there are no samples of the type '{name}'", hint="give samples=, rows of input values")
    return _SAMPLES[name]


def check(monoid: Monoid, rows: Sequence[tuple[Value, ...]]) -> None:
    """Raises a DefinitionError with the partials that break a law."""
    partials = _partials(monoid, rows)
    for p in partials:
        _neutral(monoid, p)
        _stored(monoid, p)
        if monoid.inverting is not None:
            _inverse(monoid, p)
    for a, b in itertools.combinations_with_replacement(partials, 2):
        _commutative(monoid, a, b)
    for a, b, c in itertools.product(partials, repeat=3):
        _associative(monoid, a, b, c)


def _partials(monoid: Monoid, rows: Sequence[tuple[Value, ...]]) -> list[Any]:
    """The different partials of the rows, as many as are tried."""
    partials: list[Any] = []
    for row in rows:
        try:
            partial = monoid.lift(row, Origin(0, 0, 0))
        except Exception as error:
            raise DefinitionError(
                f"lift of the monoid '{monoid.name}' fails on {row!r}: {type(error).__name__}: {error}",
                hint="give samples=, rows such as your inputs have" if monoid.samples is None else None,
            ) from error
        if not any(alike(partial, known) for known in partials):
            partials.append(partial)
    return partials[:_PARTIALS]


def _neutral(monoid: Monoid, p: Any) -> None:
    zero = monoid.zero()
    for merged, text in ((_merge(monoid, zero, p), "merge(zero, p)"), (_merge(monoid, p, zero), "merge(p, zero)")):
        if not alike(merged, p):
            _break(
                monoid, "the zero of the monoid '{}' is not neutral",
                (("zero", zero), ("p", p), (text, merged)), "merging the zero with a partial must give that partial",
            )  # fmt: skip


def _stored(monoid: Monoid, p: Any) -> None:
    try:
        stored = monoid.encode(p)
    except (TypeError, ValueError) as error:
        raise DefinitionError(
            f"a partial of the monoid '{monoid.name}' cannot be stored: {p!r}: {error}",
            hint="give encode= and decode=, or partials of numbers, text, lists and dicts, which JSON can hold",
        ) from error
    if not isinstance(stored, (str, bytes)):
        _break(monoid, "encode of the monoid '{}' must give text or bytes", (("p", p), ("encode(p)", stored)), None)
    back = monoid.decode(stored)
    if not alike(back, p, strict=True):
        hint = "decode must undo encode"
        if monoid.encoding is None:
            hint = "JSON turns tuples into lists and keys into text: use lists, or give encode= and decode="
        _break(
            monoid, "a partial of the monoid '{}' does not survive storing",
            (("p", p), ("encode(p)", stored), ("decode(encode(p))", back)), hint,
        )  # fmt: skip


def _inverse(monoid: Monoid, p: Any) -> None:
    inverse = monoid.inverse(p)
    merged = _merge(monoid, p, inverse)
    if not alike(merged, monoid.zero()):
        _break(
            monoid, "the inverse of the monoid '{}' does not take a partial back",
            (("p", p), ("inverse(p)", inverse), ("merge(p, inverse(p))", merged), ("zero", monoid.zero())),
            "merging a partial with its inverse must give the zero",
        )  # fmt: skip


def _commutative(monoid: Monoid, a: Any, b: Any) -> None:
    ab, ba = _merge(monoid, a, b), _merge(monoid, b, a)
    if not alike(ab, ba):
        _break(
            monoid, "the monoid '{}' is not commutative",
            (("a", a), ("b", b), ("merge(a, b)", ab), ("merge(b, a)", ba)),
            "rows arrive in any order: keep the order in the partial, sort in merge, or use ps.collect_list",
        )  # fmt: skip


def _associative(monoid: Monoid, a: Any, b: Any, c: Any) -> None:
    left, right = _merge(monoid, _merge(monoid, a, b), c), _merge(monoid, a, _merge(monoid, b, c))
    if not alike(left, right):
        _break(
            monoid, "the monoid '{}' is not associative",
            (("a", a), ("b", b), ("c", c), ("merge(merge(a, b), c)", left), ("merge(a, merge(b, c))", right)),
            "rows are merged in any grouping: keep sums and counts in the partial, and divide in present",
        )  # fmt: skip


def _merge(monoid: Monoid, a: Any, b: Any) -> Any:
    before = repr(a), repr(b)
    merged = monoid.merge(a, b)
    if (repr(a), repr(b)) != before:
        raise DefinitionError(
            f"merge of the monoid '{monoid.name}' changes its arguments",
            detail=f"before: {before[0]} and {before[1]}; after: {a!r} and {b!r}",
            hint="make a new partial, for example {**a, **b} instead of a.update(b)",
        )
    return merged


def _break(monoid: Monoid, message: str, shown: Iterable[tuple[str, Any]], hint: str | None) -> NoReturn:
    raise DefinitionError(
        message.format(monoid.name), detail=", ".join(f"{name} = {value!r}" for name, value in shown), hint=hint
    )


def alike(a: Any, b: Any, *, strict: bool = False) -> bool:
    """Whether two partials are equal; floats up to rounding. `strict`: a tuple is not a list.

    >>> alike([0.1 + 0.2, "a"], [0.3, "a"]), alike((1, 2), [1, 2], strict=True)
    (True, False)
    """
    if isinstance(a, float) and isinstance(b, float):
        return a == b or math.isclose(a, b, rel_tol=1e-9) or (math.isnan(a) and math.isnan(b))
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        same_kind = not strict or type(a) is type(b)
        return same_kind and len(a) == len(b) and all(alike(x, y, strict=strict) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(alike(a[name], b[name], strict=strict) for name in a)
    return bool(a == b)
