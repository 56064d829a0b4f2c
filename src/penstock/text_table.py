"""Rows as a table of text.

>>> print(text_table([{"name": "a", "n": 1}, {"name": None, "n": 20}]))
name  n
a      1
null  20
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime


def text_table(rows: Sequence[Mapping[str, object]], text: Callable[[object], str] | None = None) -> str:
    """A line of names and a line for each row; numbers are aligned to the right. `text` shows a value."""
    if not rows:
        return "no rows"
    names, show = list(rows[0]), text or value_text
    cells = [[show(row[name]) for name in names] for row in rows]
    numeric = [all(_is_number(row[name]) for row in rows) for name in names]
    widths = [max(len(name), *(len(line[i]) for line in cells)) for i, name in enumerate(names)]
    lines = [names, *cells]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if right and line is not names else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in lines
    )


def value_text(value: object) -> str:
    """A value as text: null, true and false as SQL writes them, times in UTC."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat().removesuffix("+00:00") if isinstance(value, datetime) else str(value)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
