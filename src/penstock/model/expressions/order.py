"""Which arguments are evaluated, and in which order: as in Spark, a failure counts only where Spark would reach it.

Most functions are *strict*: arguments from left to right, and at the first null the answer is null, the rest unread.

>>> order("add"), order("divide"), order("concat")
('strict', 'reversed', 'eager')
"""

from __future__ import annotations

from typing import Literal

Order = Literal["strict", "reversed", "eager", "lazy"]

#: Division looks at the divisor first; a safe one, at nothing else if that is zero.
_REVERSED = frozenset({"divide", "int_divide", "remainder", "pmod"})
#: All arguments are evaluated, nulls and all.
_EAGER = frozenset({
    "concat", "concat_ws", "greatest", "least", "same", "is_null", "is_true", "is_false", "is_nan", "array",
    "named_struct",
})  # fmt: skip
#: Evaluated argument by argument, as far as needed; each has its own rule.
_LAZY = frozenset({"and", "or", "case", "coalesce", "in", "nanvl"})


def order(name: str) -> Order:
    """How the arguments of a function of the tree are evaluated."""
    if name in _REVERSED:
        return "reversed"
    if name in _EAGER:
        return "eager"
    return "lazy" if name in _LAZY else "strict"
