"""Rows as a table of HTML, as notebooks show them. Values are text, never markup.

>>> print(html_table(["page", "n"], [["<b>", 1]], "by_page"))
<table><caption>by_page</caption><tr><th>page</th><th>n</th></tr><tr><td>&lt;b&gt;</td><td>1</td></tr></table>
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Sequence

from penstock.text_table import value_text


def html_table(
    names: Sequence[str],
    rows: Iterable[Sequence[object]],
    caption: str | None = None,
    text: Callable[[object], str] = value_text,
) -> str:
    """A table with a line of names and a line for each row; `text` shows a value."""
    title = "" if caption is None else f"<caption>{html.escape(caption)}</caption>"
    lines = [_line("th", names), *(_line("td", map(text, row)) for row in rows)]
    return f"<table>{title}{''.join(lines)}</table>"


def _line(tag: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"
