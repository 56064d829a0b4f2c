"""What people and their tools read of a view in PostgreSQL: a view of its own, with real types and comments.

It stands in a schema apart, the app's, in which there is nothing else. The store's tables keep the forms that all
stores share; here they become timestamps, dates, decimals, booleans and JSON.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from penstock.kernel.columns import END, START
from penstock.model.windows import CountBased, Global
from penstock.store.dialect import quoted, timestamp

if TYPE_CHECKING:
    from penstock.kernel.plan import Plan
    from penstock.store.tables import Layout

_CASTS: Final = {"tinyint": "smallint", "smallint": "smallint", "int": "integer", "bigint": "bigint", "float": "real"}
#: Instants in microseconds that PostgreSQL can hold: from 4713 BC to 294276 AD.
_FIRST, _LAST = -210_000_000_000_000_000, 9_200_000_000_000_000_000


def people_view(layout: Layout, statement: str, there: str) -> list[str]:
    """The statements that make it, with its comments. The store's own has as comment `statement`."""
    name = f"{quoted(layout.dialect.people)}.{quoted(layout.name)}"
    kinds = columns(layout.plan)
    shown = ", ".join(f"{_value(layout, column, kind)} AS {quoted(column)}" for column, kind in kinds.items())
    comments = _comments(layout.plan)
    return [
        f"COMMENT ON VIEW {quoted(layout.name)} IS {_text(statement)}",
        f"CREATE VIEW {name} AS SELECT {shown} FROM {layout.table}{there}",
        f"COMMENT ON VIEW {name} IS {_text(repr(layout.plan.written))}",
        *(f"COMMENT ON COLUMN {name}.{quoted(column)} IS {_text(comments[column])}" for column in kinds),
    ]


def columns(plan: Plan) -> dict[str, str]:
    """The columns of a view's table with their types, in Spark's words."""
    bound = "bigint" if isinstance(plan.view.windows, CountBased) else "timestamp"
    window = {"window_start": bound, "window_end": bound}
    return {**plan.key_names, **window, **plan.view.value_types, "final": "boolean"}


def _value(layout: Layout, column: str, kind: str) -> str:
    """A column in PostgreSQL's own type. What indexes are made of is made of the same functions."""
    windows = layout.plan.view.windows
    if column in ("window_start", "window_end"):
        if isinstance(windows, Global):
            return "NULL::timestamptz"
        bound = START if column == "window_start" else END
        return bound if isinstance(windows, CountBased) else instant(bound)
    name = quoted(column)
    if column == "final":
        return "(final = 1)"
    if kind in _CASTS:
        return f"{name}::{_CASTS[kind]}"
    if kind in ("timestamp", "timestamp_ltz"):
        return f"({_parsed(name)} AT TIME ZONE 'UTC')"
    if kind == "timestamp_ntz":
        return _parsed(name)
    if kind == "date":
        return _parsed_date(name)
    if kind.startswith("decimal"):
        return f"{name}::{kind.replace('decimal', 'numeric')}"
    if re.match(r"(array|struct|map)<", kind):
        return f"{name}::json"
    return name


def instant(column: str) -> str:
    """A column of microseconds as PostgreSQL's instant."""
    inner = f"WHEN {column} BETWEEN {_FIRST} AND {_LAST} THEN {timestamp(column)} AT TIME ZONE 'UTC'"
    return f"CASE {inner} WHEN {column} > 0 THEN timestamptz 'infinity' ELSE timestamptz '-infinity' END"


def _parsed(name: str) -> str:
    """A time as text, as a timestamp, by functions that do not depend on a session's settings."""
    numbers = ", ".join(f"substr({name}, {at}, {size})::int" for at, size in ((1, 4), (6, 2), (9, 2), (12, 2), (15, 2)))
    return _in_years(name, f"make_timestamp({numbers}, substr({name}, 18)::float8)", "timestamp")


def _parsed_date(name: str) -> str:
    numbers = ", ".join(f"substr({name}, {at}, {size})::int" for at, size in ((1, 4), (6, 2), (9, 2)))
    return _in_years(name, f"make_date({numbers})", "date")


def _in_years(name: str, expression: str, kind: str) -> str:
    """Years before 1 and after 9999 are beyond all time."""
    first = f"substr({name}, 1, 1)"
    before = f"WHEN {first} = '-' OR substr({name}, 1, 4) = '0000' THEN {kind} '-infinity'"
    return f"CASE {before} WHEN {first} = '+' THEN {kind} 'infinity' ELSE {expression} END"


def _comments(plan: Plan) -> dict[str, str]:
    """What each column is."""
    view = plan.written
    unit = "number of its first element" if isinstance(view.windows, CountBased) else "start of the window, part of it"
    last = (
        "number after its last element" if isinstance(view.windows, CountBased) else "end of the window, not part of it"
    )
    comments = {name: f"key: {text}" for name, text in view.keys}
    comments |= dict.fromkeys(plan.view.value_types, "computed from the other columns")
    comments |= {name: repr(aggregate) for name, aggregate in view.aggregates}
    comments |= {"window_start": unit, "window_end": last}
    return comments | {"final": "whether the window is closed: from then on its row stays as it is"}


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
