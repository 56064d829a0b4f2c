"""A SELECT over views as the store runs it. Nothing of a user's text gets there: names are looked up, literals bound.

The statement is read into a tree; only known nodes, functions, tables and columns may stand in it; every literal
becomes a parameter; what is left is written anew in the store's dialect.

>>> text, parameters = question("SELECT n FROM totals WHERE tag = 'x'' OR 1=1' LIMIT 3", {"totals": ("tag", "n")})
>>> print(text)
SELECT "totals"."n" AS "n" FROM "totals" AS "totals" WHERE "totals"."tag" = ?1 LIMIT ?2
>>> parameters
["x' OR 1=1", 3]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from sqlglot import exp
from sqlglot.errors import OptimizeError, SqlglotError
from sqlglot.optimizer.qualify import qualify

from penstock.errors import unknown
from penstock.model.naming import valid_name
from penstock.model.time import Instant
from penstock.sql.allowed import check_nodes, place
from penstock.sql.errors import Piece, Source, SqlError
from penstock.sql.read import parse_one
from penstock.sql.statements import History, Question
from penstock.sql.times import with_times

Tables = Mapping[str, Iterable[str]]


def question(
    select: Question | str, tables: Tables, *, now: Instant | None = None, dialect: str = "sqlite"
) -> tuple[str, list[object]]:
    """The text that the store runs, and its parameters. `dialect` is that of its database, sqlite or postgres.

    `tables` are the views that may be asked, with their columns. With `now`, the clock of the store plays no part.
    """
    statement = parse_one(select) if isinstance(select, str) else select
    source = statement.source
    if isinstance(statement, History):
        raise refuse_history(statement)
    if not isinstance(statement, Question):
        raise source.error("this is no SELECT over views", statement.whole)
    tree: exp.Expr = statement.tree.copy()
    columns = {name: tuple(known) for name, known in tables.items()}
    check_nodes(tree, source, statement.whole)
    _check_tables(tree, source, columns)
    _check_aliases(tree, source)
    tree = with_times(tree, source, statement.whole, now)
    tree = _qualified(tree, source, statement.whole, columns)
    if dialect == "postgres":
        _in_postgres(tree)
    parameters = _bound(tree, source, statement.whole, booleans=dialect == "sqlite")
    text = tree.sql(dialect, comments=False)
    order = list(dict.fromkeys(int(number) for number in _PLACEHOLDER.findall(text)))
    text = _PLACEHOLDER.sub(lambda found: f"?{order.index(int(found[1])) + 1}", text)
    return text, [parameters[number - 1] for number in order]


#: A parameter as SQLGlot writes it for SQLite, or for PostgreSQL.
_PLACEHOLDER = re.compile(r"(?::|%\()p(\d+)\b(?:\)s)?")


def _in_postgres(tree: exp.Expr) -> None:
    """Parameters are wide numbers, which SUBSTRING … FROM does not take; the store's `substr` does."""
    for node in list(tree.find_all(exp.Substring)):
        parts = [node.this, node.args.get("start"), node.args.get("length")]
        node.replace(exp.Anonymous(this="substr", expressions=[part.copy() for part in parts if part is not None]))


def refuse_history(statement: History) -> SqlError:
    return statement.source.error(
        "HISTORY asks the master, which only Spark reads", statement.asked[0].name,
        hint="in a shell: penstock ask \"SELECT … FROM HISTORY(stream)\"; here, ask a view",
    )  # fmt: skip


def _check_tables(tree: exp.Expr, source: Source, known: Mapping[str, tuple[str, ...]]) -> None:
    made = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    spelled = {name.lower(): name for name in known}
    for table in tree.find_all(exp.Table):
        name = table.name
        at = Piece(name, place(table, Piece("", 0, 0)), place(table, Piece("", 0, 0)) + len(name))
        if table.args.get("db") or not isinstance(table.this, exp.Identifier):
            raise source.error(f"«{table.sql('spark')}» is no view", at, hint="write a view's name alone")
        if name.lower() in made:
            continue
        if name.lower() not in spelled:
            raise source.placed(unknown("view", name, known), at, {})
        table.set("this", exp.to_identifier(spelled[name.lower()], quoted=True))


def _check_aliases(tree: exp.Expr, source: Source) -> None:
    for node in tree.find_all(exp.Alias, exp.TableAlias):
        if isinstance(node, exp.TableAlias) and node.args.get("columns") and not isinstance(node.parent, exp.CTE):
            raise source.error(f"the store cannot rename the columns of «{node.name}»", place(node, Piece("", 0, 0)))
        names = [node.args.get("alias"), node.args.get("this"), *(node.args.get("columns") or [])]
        for name in names:
            if isinstance(name, exp.Identifier) and not valid_name(name.name):
                at = int(name.meta.get("start", 0))
                hint = "use letters, digits and underscores"
                raise source.error(f"«{name.name}» cannot be a name here", at, hint=hint)


def _qualified(tree: exp.Expr, source: Source, whole: Piece, known: Mapping[str, tuple[str, ...]]) -> exp.Expr:
    """Every column with its table; stars written out; one that no table has is refused."""
    schema: dict[str, object] = {name: dict.fromkeys(columns, "text") for name, columns in known.items()}
    try:
        return _renamed(qualify(tree, schema=schema, dialect="spark", validate_qualify_columns=True))
    except OptimizeError as error:
        said = re.search(r"Column '\"?`?([^'\"`]+)|[Uu]nknown column: ([^\s.]+)", str(error))
        name = (said[1] or said[2]) if said else ""
        tables = {table.name.lower() for table in tree.find_all(exp.Table)}
        columns = [column for view, several in known.items() if view.lower() in tables for column in several]
        if name and name.lower() not in {column.lower() for column in columns}:
            raise source.placed(unknown("column", name, columns), whole, {}) from None
        raise source.error("this SELECT cannot be understood", whole, detail=str(error).split("\n")[0]) from None
    except (SqlglotError, AttributeError, KeyError, IndexError, TypeError, ValueError, RecursionError) as error:
        raise source.error("this SELECT cannot be understood", whole, detail=str(error).split("\n")[0][:200]) from None


def _renamed(tree: exp.Expr) -> exp.Expr:
    """SQLGlot names columns after their text; what is no plain name becomes one."""
    for number, node in enumerate(tree.find_all(exp.Alias), 1):
        if not valid_name(node.alias):
            node.set("alias", exp.to_identifier(f"column_{number}", quoted=True))
    return tree


def _bound(tree: exp.Expr, source: Source, whole: Piece, booleans: bool) -> list[object]:
    """Puts a parameter in the place of every literal, and of true and false too; equal ones share one."""
    values: list[object] = []
    for node in list(tree.find_all(*((exp.Literal, exp.Boolean) if booleans else (exp.Literal,)), bfs=False)):
        value = _value(node, source, whole)
        key = (type(value), value)
        number = next((i for i, other in enumerate(values, 1) if (type(other), other) == key), None)
        if number is None:
            values.append(value)
            number = len(values)
        node.replace(exp.Placeholder(this=f"p{number}"))
    return values


def _value(node: exp.Expr, source: Source, whole: Piece) -> object:
    if isinstance(node, exp.Boolean):
        return int(bool(node.this))
    if node.is_string:
        return node.name
    try:
        value = int(node.name) if re.fullmatch(r"\d+", node.name) else float(node.name)
    except ValueError:
        raise source.error(f"«{node.name}» is no number", whole) from None
    if isinstance(value, int) and value >= 1 << 63:
        raise source.error(f"the number {node.name} is too large", whole)
    return value
