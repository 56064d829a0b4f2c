"""What the planners of clauses share: errors with their place, clauses that are refused, columns under other names."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from penstock.model.expressions.coerce import Outside
from penstock.model.types import is_float
from penstock.query.relations import Output, quoted
from penstock.query.types import duckdb_type


def at(tree: exp.Expr, error: Exception) -> Exception:
    """The error with the tree that it is about."""
    if not hasattr(error, "tree"):
        error.tree = tree  # type: ignore[attr-defined]
    return error


def refuse_clauses(tree: exp.Expr, known: set[str]) -> None:
    """Refuses what a SELECT may have besides the clauses that are known."""
    for name, value in tree.args.items():
        if value and name not in known:
            raise at(tree, Outside(f"{name.strip('_').replace('_', ' ').upper()} is not supported here"))


def normal(text: str, kind: str) -> str:
    """A key of groups: -0.0 is 0.0."""
    return f"CASE WHEN {text} = 0 THEN CAST(0 AS {duckdb_type(kind)}) ELSE {text} END" if is_float(kind) else text


def labelled(outputs: tuple[Output, ...], top: bool) -> tuple[Output, ...]:
    """The columns of the answer under their own names in SQL."""
    return tuple(replace(output, column=quoted(output.name)) for output in outputs) if top else outputs


def renamed(outputs: tuple[Output, ...], alias: exp.TableAlias | None) -> tuple[Output, ...]:
    """The columns under the names of an alias: AS t(a, b)."""
    names = [] if alias is None else alias.args.get("columns") or []
    if not names:
        return outputs
    if len(names) != len(outputs):
        raise at(alias, Outside(f"there are {len(outputs)} columns and {len(names)} names for them"))  # type: ignore[arg-type]
    return tuple(Output(name.name, output.type, output.column) for output, name in zip(outputs, names, strict=True))
