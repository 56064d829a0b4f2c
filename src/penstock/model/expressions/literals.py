"""Constants as Spark types them.

>>> number("1"), number("3000000000").type, number("0.05").type, number("1e3")
(Literal(value=1, type='int'), 'bigint', 'decimal(2,2)', Literal(value=1000.0, type='double'))
"""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation

from penstock.errors import DefinitionError
from penstock.model.expressions.coerce import decimal
from penstock.model.expressions.tree import Literal
from penstock.model.types import INTEGERS


def text(value: str) -> Literal:
    return Literal(value, "string")


def number(digits: str) -> Literal:
    """A number without a suffix: int, bigint, decimal or double by its form. 1L and 1.5D are read as casts."""
    try:
        value = Decimal(digits)
    except InvalidOperation:
        raise DefinitionError(f"{digits} is not a number") from None
    if "e" in digits or "E" in digits:
        if math.isinf(rounded := float(value)):
            raise DefinitionError(f"{digits} is not of type double")
        return Literal(rounded, "double")
    if "." not in digits:
        for kind in ("int", "bigint"):
            if -(1 << INTEGERS[kind] - 1) <= value < 1 << INTEGERS[kind] - 1:
                return Literal(int(value), kind)
    scale = max(0, -int(value.as_tuple().exponent))
    return Literal(value, decimal(max(len(value.as_tuple().digits), scale), scale))
