"""Constants in SQL: what an expression without columns is worth.

>>> source = Source("1 + 2, array('a', 'b'), DATE '2024-05-01'")
>>> [value(source, Piece(text, 0, 5)) for text in ("1 + 2", "array('a', 'b')", "DATE '2024-05-01'", "NULL")]
[3, ['a', 'b'], datetime.date(2024, 5, 1), None]
"""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal

from sqlglot import exp

from penstock.errors import DefinitionError
from penstock.model.expressions import bind, evaluate, parse
from penstock.model.time import to_datetime
from penstock.model.types import Schema
from penstock.sql.errors import Piece, Source

_NO_COLUMNS = Schema(())


def value(source: Source, piece: Piece) -> object:
    """The value of a constant expression; timestamps as datetimes, dates as dates, arrays as lists."""
    with source.at(piece):
        return _value(piece.text)


def _value(text: str) -> object:
    parsed = parse(text)
    if isinstance(parsed.tree, exp.Anonymous) and parsed.tree.name.lower() == "array":
        return [_value(part.sql("spark")) for part in parsed.tree.expressions]
    if isinstance(parsed.tree, exp.Anonymous) and parsed.tree.name.lower() in ("map", "named_struct"):
        parts = [_value(part.sql("spark")) for part in parsed.tree.expressions]
        if len(parts) % 2 or any(isinstance(key, (list, dict)) for key in parts[::2]):
            raise DefinitionError(f"'{text}' needs a key and a value in turn", hint="write map('a', 1, 'b', 2)")
        return dict(zip(parts[::2], parts[1::2], strict=True))
    if isinstance(parsed.tree, exp.Null):
        return None
    if parsed.columns:
        raise DefinitionError(
            f"'{text}' is not a constant: it has the column '{min(parsed.columns)}'", hint="write text in single quotes"
        )
    bound = bind(text, _NO_COLUMNS)
    if bound.outside is not None:
        raise DefinitionError(f"'{text}' is not a constant that can be read without Spark: {bound.outside}")
    result = evaluate(bound, {})
    if result is None:
        return None
    if bound.type == "timestamp":
        return to_datetime(result)  # type: ignore[arg-type]
    if bound.type == "date":
        return date(1970, 1, 1) + timedelta(days=result)  # type: ignore[arg-type]
    return result


def plain(source: Source, piece: Piece) -> object:
    """A constant for an option or a parameter: decimals as floats."""
    constant = value(source, piece)
    several = constant if isinstance(constant, list) else [constant]
    numbers = [float(part) if isinstance(part, Decimal) else part for part in several]
    return numbers if isinstance(constant, list) else numbers[0]
