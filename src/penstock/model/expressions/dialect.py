"""Spark's expression syntax for SQLGlot: its own precedence of operators, and functions kept under the name written.

>>> from sqlglot import parse_one
>>> parse_one("Nvl(a, 1) > 2 is true", read=SparkExpressions).sql(SparkExpressions)
'(NVL(a, 1) > 2) IS TRUE'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import TokenType

#: Functions with a syntax of their own. All others are read as plain calls, so that the text stays what was written.
_SPECIAL = ("CAST", "TRY_CAST", "EXTRACT", "POSITION", "SUBSTRING", "TRIM", "OVERLAY")
_ADDITIVE: dict[TokenType, type[exp.Expr]] = {
    TokenType.PLUS: exp.Add,
    TokenType.DASH: exp.Sub,
    TokenType.DPIPE: exp.DPipe,
}


class _Parser(SparkParser):
    """In Spark `a || b + c` is left to right, and a predicate binds loosest: `a = b IS NULL` is `(a = b) IS NULL`."""

    FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {name: SparkParser.FUNCTION_PARSERS[name] for name in _SPECIAL}

    def _parse_term(self, parse_mod: bool = True) -> exp.Expr | None:
        this = self._parse_factor(parse_mod=parse_mod)
        while self._match_set(_ADDITIVE):
            kind = _ADDITIVE[self._prev.token_type]
            this = self.expression(kind(this=this, expression=self._parse_factor(parse_mod=parse_mod)))
        return this

    def _parse_equality(self, parse_is: bool = True) -> exp.Expr | None:
        this = self._parse_bitwise()
        comparisons = {**self.EQUALITY, **self.COMPARISON}
        while self._match_set(comparisons):
            kind = comparisons[self._prev.token_type]
            this = self.expression(kind(this=this, expression=self._parse_bitwise()))
        return self._parse_range(this, parse_is=True) if this and parse_is else this


class SparkExpressions(Spark):
    """Spark's dialect, for expressions."""

    Parser = _Parser
