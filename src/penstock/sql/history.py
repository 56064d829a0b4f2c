"""A SELECT over the past as Spark runs it: of its text only what reads, over tables that are known.

>>> from penstock.sql.read import parse_one
>>> history(parse_one("SELECT count(*) FROM HISTORY(posts) AS OF EPOCH 3 WHERE user = 'x'"), ["posts"], [])
("SELECT COUNT(*) FROM __history_1 WHERE user = 'x'", [])
"""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from penstock.errors import unknown
from penstock.sql.errors import Piece, SqlError
from penstock.sql.statements import History, Statement

#: Functions of Spark that do more than compute.
_REFUSED = {"java_method", "reflect", "try_reflect", "read_files", "sql_keywords", "python_worker_logs"}


def history(statement: Statement, streams: Collection[str], views: Collection[str]) -> tuple[str, list[str]]:
    """The text that Spark runs, and the views that it reads as they are now."""
    source = statement.source
    if not isinstance(statement, History):
        raise source.error("this does not query the history", statement.whole, hint="SELECT … FROM HISTORY(stream)")
    for past in statement.tables:
        if past.name.text not in (*streams, *views):
            raise source.placed(unknown("stream or view", past.name.text, [*streams, *views]), past.name, {})
        if past.by == "STATE" and past.name.text in views:
            raise source.error(
                f"'{past.name.text}' is a view, and not what a processor gives", past.name,
                hint=f"SELECT … FROM {past.name.text}",
            )  # fmt: skip
        if past.by == "EPOCH" and past.name.text in views:
            raise source.error(
                f"the view '{past.name.text}' has commits, and only streams have epochs", past.name,
                hint=f"HISTORY({past.name.text}) AS OF COMMIT n",
            )  # fmt: skip
    own = {past.table for past in statement.tables}
    ctes = {cte.alias.lower() for cte in statement.tree.find_all(exp.CTE)}
    present: dict[str, None] = {}
    for table in statement.tree.find_all(exp.Table):
        at = place(table, statement.whole)
        if not isinstance(table.this, exp.Identifier) or table.args.get("db"):
            raise source.error(f"'{table.sql('spark')}' is neither a view nor a history", at)
        if table.name in own or table.name.lower() in ctes:
            continue
        if table.name not in views:
            raise source.placed(unknown("view", table.name, views), Piece(table.name, at, at + len(table.name)), {})
        present[table.name] = None
    for function in statement.tree.find_all(exp.Anonymous):
        if function.name.lower() in _REFUSED:
            raise source.error(f"{function.name} is not supported here", place(function, statement.whole))
    return statement.tree.sql("spark", comments=False), list(present)


def place(node: exp.Expr, whole: Piece) -> int:
    """Where a node begins in the text, as far as SQLGlot tells: it marks names only."""
    for part in node.walk():
        start = part.meta.get("start")
        if start is not None:
            return int(start)
    return whole.start


def refuse_history(statement: History) -> SqlError:
    """The error where only views are asked."""
    return statement.source.error(
        "HISTORY(stream) can be read by Spark only", statement.tables[0].name,
        hint="in a shell: penstock ask \"SELECT … FROM HISTORY(stream)\"; here, ask a view",
    )  # fmt: skip
