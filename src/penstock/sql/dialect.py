"""Penstock's SQL for SQLGlot: the expressions are Spark's, as the model reads them; no word starts a raw command.

>>> tree, after = ExpressionReader("a + 1 AS b").read(0)
>>> tree.sql(), after
('a + 1', 3)
"""

from __future__ import annotations

import re
from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from penstock.model.expressions.dialect import SparkExpressions
from penstock.model.expressions.parse import join_doubled_quotes


class Penstock(SparkExpressions):
    """Spark's dialect, with the statements of Penstock around its expressions."""

    class Tokenizer(Spark.Tokenizer):
        #: SQLGlot would take the rest of SHOW and its like as one text.
        COMMANDS: ClassVar[set[TokenType]] = set()


class Unreadable(Exception):
    """SQLGlot cannot read on. `at` is the number of the token, or the place in the text where no token begins."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(why)
        self.at, self.why = at, why


def tokenize(text: str) -> list[Token]:
    """The tokens of a text; `Unreadable.at` is the place of what is left open."""
    try:
        return join_doubled_quotes(Penstock().tokenize(text), text)
    except TokenError as error:
        position = re.search(r":(\d+)$", str(error.__cause__ or ""))
        raise Unreadable(
            int(position[1]) if position else len(text), "a quote, a backtick or a comment is left open"
        ) from None
    except (IndexError, ValueError, RecursionError):
        raise Unreadable(0, "the text has signs that SQL does not know") from None


class ExpressionReader:
    """Reads single expressions out of a list of tokens."""

    def __init__(self, text: str, tokens: list[Token] | None = None) -> None:
        self._tokens = tokenize(text) if tokens is None else tokens
        self._parser = Penstock().parser(error_level=ErrorLevel.IMMEDIATE)
        self._parser.reset()
        self._parser.sql = text
        self._parser._chunks = [self._tokens]
        self._parser._advance_chunk()
        self.names = frozenset(self._parser.ID_VAR_TOKENS)

    def read(self, index: int) -> tuple[exp.Expr, int]:
        """The expression that begins at a token, and the token after it."""
        parser = self._parser
        parser._retreat(index)
        try:
            tree = parser._parse_disjunction()
        except ParseError as error:
            raise Unreadable(
                parser._index, str(error.errors[0].get("description", "")) if error.errors else ""
            ) from None
        except RecursionError:
            raise Unreadable(index, "the expression is too deep") from None
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            # SQLGlot trips over some texts that are no SQL at all.
            raise Unreadable(min(parser._index, len(self._tokens)), "") from None
        if tree is None or parser._index == index:
            raise Unreadable(index, "")
        return tree, parser._index
