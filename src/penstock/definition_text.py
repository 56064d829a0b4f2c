"""Reads definitions that are written as Python expressions, without running Python code.

>>> read_definition('ps.stream("s", schema="k string").group_by("k").agg(n=ps.count())', {})
ps.stream('s', schema='k string').group_by('k').agg(n=ps.count())
>>> read_definition('ps.count().__class__', {})
Traceback (most recent call last):
penstock.errors.DefinitionError: 'ps.count().__class__' is not allowed in a definition
  hint: write literals, names, ps.function(…) and methods of definitions

Literals, names that the caller knows, calls of Penstock's functions for definitions (`ps.…`) and calls of public
methods of their results are allowed; nothing else is.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, Final

import penstock
from penstock.errors import DefinitionError, PenstockError, unknown

#: Where definitions and the functions that make them are; sources, sinks and apps are elsewhere, and not allowed.
_DEFINITIONS: Final = "penstock.model."
_DEEPEST: Final = 100


def read_definition(text: str, names: Mapping[str, object]) -> object:
    """The value of an expression, in which `names` may be used."""
    try:
        tree = ast.parse(f"({text.strip()}\n)", mode="eval")  # it may have several lines
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise DefinitionError(f"'{_short(text)}' is not an expression", detail=str(error)) from None
    try:
        return _Reader(names).value(tree.body, 0)
    except PenstockError:
        raise
    except Exception as error:  # wrong arguments
        reason = f"{type(error).__name__}: {error}"
        raise DefinitionError(f"'{_short(text)}' cannot be evaluated", detail=reason) from error


class _Reader:
    def __init__(self, names: Mapping[str, object]) -> None:
        self._names = names

    def value(self, node: ast.expr, depth: int) -> Any:
        if depth > _DEEPEST:
            raise DefinitionError(f"the definition is nested more than {_DEEPEST} levels deep")
        inner = depth + 1
        match node:
            case ast.Constant():
                return node.value
            case ast.Name():
                if node.id not in self._names:
                    raise unknown("name", node.id, ["ps", *self._names])
                return self._names[node.id]
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=ast.Constant(value=int() | float() as number)):
                return -number if isinstance(node.op, ast.USub) else number
            case ast.List():
                return [self.value(part, inner) for part in node.elts]
            case ast.Tuple():
                return tuple(self.value(part, inner) for part in node.elts)
            case ast.Dict():
                if None in node.keys:
                    raise _forbidden(node)
                keys = [self.value(key, inner) for key in node.keys if key is not None]
                return dict(zip(keys, [self.value(part, inner) for part in node.values], strict=True))
            case ast.Call():
                function = self._function(node.func, inner)
                arguments = [self.value(argument, inner) for argument in node.args]
                options: dict[str, Any] = {}
                for option in node.keywords:
                    if option.arg is None:
                        raise _forbidden(node)
                    options[option.arg] = self.value(option.value, inner)
                return function(*arguments, **options)
        raise _forbidden(node)

    def _function(self, node: ast.expr, depth: int) -> Any:
        """A function of Penstock's, or a method of a definition."""
        if not isinstance(node, ast.Attribute) or node.attr.startswith("_"):
            raise _forbidden(node)
        if isinstance(node.value, ast.Name) and node.value.id == "ps" and "ps" not in self._names:
            return self._public(node.attr)
        owner = self.value(node.value, depth)
        if not type(owner).__module__.startswith(_DEFINITIONS) or not callable(getattr(type(owner), node.attr, None)):
            raise _forbidden(node)
        return getattr(owner, node.attr)

    def _public(self, name: str) -> Any:
        """A public function that makes definitions."""
        if name not in penstock.__all__:
            raise unknown("name of Penstock's", name, penstock.__all__)
        function = getattr(penstock, name)
        if isinstance(function, type) or not getattr(function, "__module__", "").startswith(_DEFINITIONS):
            raise DefinitionError(f"'ps.{name}' makes no stream, view or part of one, and is not allowed here")
        return function


def _forbidden(node: ast.AST) -> DefinitionError:
    return DefinitionError(
        f"'{_short(ast.unparse(node))}' is not allowed in a definition",
        hint="write literals, names, ps.function(…) and methods of definitions",
    )


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 80 else f"{text[:77]}…"
