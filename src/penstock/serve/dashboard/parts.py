"""What feeds what: the streams and logs in a view's definition, and the view of a sink.

>>> streams_of("ps.stream('posts', schema='tag string', log=ps.files('in')).group_by('tag').agg(n=ps.count())")
{'posts': "files('in')"}
>>> reads("ps.stream('posts', schema='n int').group_by().agg(n=ps.count()).changes('all').group_by()")
([], ['all'])
>>> view_of("trending_jsonl", None, ["trend", "trending"]), view_of("out", "CREATE SINK out FROM trend", ["trend"])
('trending', 'trend')
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import Final

#: How many characters of a log's text fit on a page.
_WIDE: Final = 60
_NAMES: Final = re.compile(r"ps\.stream\('((?:[^'\\]|\\.)+)'")


def streams_of(definition: str) -> dict[str, str]:
    """The streams that a view reads, each with its log as text. A definition is an expression of Python."""
    try:
        tree = ast.parse(definition, mode="eval")
    except (SyntaxError, ValueError, RecursionError):  # a function of the user's may print as it likes
        return dict.fromkeys(_NAMES.findall(definition), "")
    logs_of: dict[str, str] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "stream":
            continue
        if node.args and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
            logs = [_log_text(keyword.value) for keyword in node.keywords if keyword.arg == "log"]
            logs_of[node.args[0].value] = logs[0] if logs else ""
    return logs_of


def reads(definition: str) -> tuple[list[str], list[str]]:
    """The streams and the views that a view reads itself, not through another view."""
    try:
        tree = ast.parse(definition, mode="eval")
    except (SyntaxError, ValueError, RecursionError):
        return list(streams_of(definition)), []
    streams: list[str] = []
    views: list[str] = []

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            first = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
            if node.func.attr in ("changes", "stream") and isinstance(first, str):
                (views if node.func.attr == "changes" else streams).append(first)
                return  # what lies below it is its own
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(tree)
    return list(dict.fromkeys(streams)), list(dict.fromkeys(views))


def _log_text(log: ast.expr) -> str:
    """A log by its kind and its first argument: further ones may be secrets, and are long."""
    if not isinstance(log, ast.Call):
        return ast.unparse(log)[:_WIDE]
    kind = ast.unparse(log.func).removeprefix("ps.")
    first = ast.unparse(log.args[0]) if log.args else ""
    return f"{kind}({first if len(first) <= _WIDE else first[: _WIDE - 1] + '…'})"


def view_of(sink: str, statement: str | None, views: Iterable[str]) -> str | None:
    """The view whose panes a sink gets: the one that its statement names, or else its own name begins with."""
    if statement is not None:
        words = set(re.findall(r"\w+", statement))
        named = [view for view in views if view in words]
    else:
        named = [view for view in views if sink == view or sink.startswith(f"{view}_")]
    return max(named, key=len, default=None)
