"""How large a question may be. It is refused by its tokens, before anything that takes long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from penstock.sql.errors import Piece, Source

_OPENS = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE)
_CLOSES = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END)


#: The words and signs of a question, its brackets within brackets, and how deep its tree may be.
_TOKENS: Final = 20_000
_BRACKETS: Final = 40
_DEPTH: Final = 120


def check_tokens(tokens: Sequence[Token], source: Source, whole: Piece) -> None:
    """Refuses a question that is too long, or has too many brackets within brackets."""
    if len(tokens) > _TOKENS:
        message = f"the query has {len(tokens)} words and signs, and may have {_TOKENS}"
        raise source.error(message, whole, hint="ask it in parts")
    depth = 0
    for token in tokens:
        depth += (token.token_type in _OPENS) - (token.token_type in _CLOSES)
        if depth > _BRACKETS:
            message = f"the query has more than {_BRACKETS} brackets within brackets"
            raise source.error(message, whole, hint="name the inner parts with WITH")


def check_depth(tree: exp.Expr, source: Source, whole: Piece) -> None:
    """Refuses a tree that is too deep; a chain of AND or OR counts once."""
    stack = [(tree, 1)]
    while stack:
        node, depth = stack.pop()
        if depth > _DEPTH:
            message = f"the query is nested more than {_DEPTH} deep"
            raise source.error(message, whole, hint="name the inner parts with WITH")
        for child in node.iter_expressions():
            chained = isinstance(node, (exp.And, exp.Or)) and type(child) is type(node)
            stack.append((child, depth if chained else depth + 1))
