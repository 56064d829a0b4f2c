"""The select list of a view: its keys and aggregates, checked against GROUP BY."""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.errors import DefinitionError, unknown
from penstock.model.aggregates import Aggregate, Paired
from penstock.model.aggregates.paired import exactness
from penstock.model.expressions import parse
from penstock.model.stream import Flow
from penstock.model.view import RESERVED, WINDOW_COLUMNS
from penstock.sql import queries as sql
from penstock.sql.aggregates import aggregate, no_aggregate
from penstock.sql.derived import Names
from penstock.sql.errors import Piece, Source, SqlError
from penstock.sql.flow import plain_name, same

Key = tuple[Piece, tuple[str, str]]


@dataclass(frozen=True)
class Columns:
    """Keys and aggregates with their places. `shown` is what is computed from them, where that is anything else."""

    keys: tuple[Key, ...]
    aggregates: tuple[tuple[sql.Call, str, Aggregate], ...]
    shown: tuple[Key, ...] | None
    having: str | None


def columns_of(source: Source, query: sql.Select, windowed: sql.Windowed | None, flow: Flow) -> Columns:
    """The columns of a view, from its select list, GROUP BY and HAVING."""
    assert query.items is not None
    bounds = [item for item in query.items if _is_bound(item)]
    derived = [item for item in query.items if item.inner or (item not in bounds and _is_derived(item, query, flow))]
    keys = [item for item in query.items if not (item.call or item in bounds or item in derived)]
    _check_bounds(source, query, bounds, windowed)
    _check_groups(source, query, keys, flow)
    named = [(item.expression, (_key_name(source, item), item.expression.text)) for item in keys]
    values = [item for item in query.items if item.call or item in derived]
    _check_names(source, [*((at, name) for at, (name, _) in named), *((_named(source, item)) for item in values)])
    names = Names(
        {item.alias.text: item.call for item in values if item.call and item.alias}, {name for _, (name, _) in named}
    )
    renamed = {text.lower(): name for _, (name, text) in named if name != text}
    shown, texts = _shown(source, values, names, renamed)
    having = None
    if query.having is not None:
        having = names.put_in(
            source, query.having, query.having_calls, renamed | {name: f"({text})" for name, text in texts.items()}
        )
    calls = {**names.shown, **names.hidden}
    if not calls:
        raise source.error("a view needs an aggregate", query.place, hint="for example count(*) AS n")
    aggregates = tuple((call, name, aggregate(source, call)) for name, call in calls.items())
    computed = _with_exactness(shown, aggregates) if derived or names.hidden else None
    return Columns(tuple(named), aggregates, computed, having)


def _with_exactness(shown: list[Key], aggregates: tuple[tuple[sql.Call, str, Aggregate], ...]) -> tuple[Key, ...]:
    """What is shown, and beside each pair of a live and a batch aggregate whether its answer is exact."""
    pairs = {name for _, name, aggregate in aggregates if isinstance(aggregate, Paired)}
    columns: list[Key] = []
    for at, (name, text) in shown:
        columns.append((at, (name, text)))
        columns += [(at, (exactness(name), exactness(text)))] if text in pairs else []
    return tuple(columns)


def _shown(
    source: Source, values: list[sql.Item], names: Names, renamed: dict[str, str]
) -> tuple[list[Key], dict[str, str]]:
    """What is shown of the aggregates, and the texts of what is computed from them, by name."""
    shown: list[Key] = []
    texts: dict[str, str] = {}
    for item in values:
        assert item.alias is not None
        name = item.alias.text
        if item.call is None:
            inner = renamed | {other: f"({text})" for other, text in texts.items()}
            texts[name.lower()] = names.put_in(source, item.expression, item.inner, inner)
        shown.append((item.expression, (name, texts.get(name.lower(), name))))
    return shown, texts


def _is_bound(item: sql.Item) -> bool:
    """Whether an entry is window_start or window_end under its own name."""
    text = item.expression.text.lower()
    return text in WINDOW_COLUMNS and (item.alias is None or item.alias.text.lower() == text)


def _is_derived(item: sql.Item, query: sql.Select, flow: Flow) -> bool:
    """Whether an entry is computed from others: from aggregates by their names, from keys, or from the window.

    An alias in GROUP BY and an aggregate's name count where no column has that name, as in Spark.
    """
    if item.call is not None or item.alias is None:
        return False
    known = _input_columns(flow)
    alias = None if item.alias.text.lower() in known else item.alias.text.lower()
    groups = [group.text for group in query.group or () if group.text.lower() not in WINDOW_COLUMNS]
    if any(same(item.expression.text, group) or group.lower() == alias for group in groups):
        return False
    try:
        used = {name.lower() for name in parse(item.expression.text).columns}
    except DefinitionError:
        return False
    aggregates = {
        other.alias.text.lower() for other in query.items or () if other.alias and (other.call or other.inner)
    }
    grouped = {group.text.lower() for group in query.group or ()} | set(WINDOW_COLUMNS)
    return bool(used & (aggregates - known)) or bool(used and used <= grouped)


def _input_columns(flow: Flow) -> set[str]:
    """The columns that a query reads, in lower case; none where only Spark knows them."""
    return set() if flow.schema is None else {name.lower() for name in flow.schema.names}


def _named(source: Source, item: sql.Item) -> tuple[Piece, str]:
    if item.alias is None:
        text = item.expression.text
        raise source.error(f"'{text}' needs a name", item.expression, hint=f"write {text} AS name")
    return item.alias, item.alias.text


def _check_names(source: Source, names: list[tuple[Piece, str]]) -> None:
    seen: set[str] = set()
    for place, name in names:
        if name.lower() in RESERVED:
            raise source.error(f"'{name}' is a column that every view has", place, hint="choose another name")
        if name.lower() in seen:
            raise source.error(
                f"the name '{name}' appears twice", place, hint="give keys and aggregates different names"
            )
        seen.add(name.lower())


def _key_name(source: Source, item: sql.Item) -> str:
    return item.alias.text if item.alias is not None else plain_name(source, item)


def _check_bounds(source: Source, query: sql.Select, bounds: list[sql.Item], windowed: sql.Windowed | None) -> None:
    """window_start and window_end stand in GROUP BY if there is a window, and nowhere if there is none."""
    groups = {group.text.lower(): group for group in query.group or ()}
    items = [item for item in query.items or () if item.expression.text.lower() in WINDOW_COLUMNS]
    mentioned = [item.expression for item in items] + [groups[b] for b in WINDOW_COLUMNS if b in groups]
    if windowed is None:
        for piece in mentioned:
            raise source.error(
                f"'{piece.text}' is there only with a window", piece, hint="write FROM TUMBLE(stream, time, size)"
            )
        return
    if query.group is None:
        return
    missing = [bound for bound in WINDOW_COLUMNS if bound not in groups]
    if missing:
        at = query.grouped or (bounds[0].expression if bounds else windowed.place)
        grouped = [group.text for group in query.group]
        raise source.error(
            f"GROUP BY lacks {' and '.join(missing)}: the view is kept for each window", at,
            hint=f"write GROUP BY {', '.join([*grouped, *missing])}",
        )  # fmt: skip


def _check_groups(source: Source, query: sql.Select, keys: list[sql.Item], flow: Flow) -> None:
    """Every key is grouped by, and what is grouped by is selected.

    A name that is both a column and an alias means the column, as in Spark.
    """
    if query.group is None:
        return
    items = query.items or ()
    aliases = {item.alias.text.lower(): item for item in items if item.alias is not None}
    left = list(keys)
    for group in query.group:
        if group.text.lower() in WINDOW_COLUMNS:
            continue
        key = next((item for item in keys if same(item.expression.text, group.text)), None)
        alias = aliases.get(group.text.lower())
        if key is None and alias is not None and group.text.lower() in _input_columns(flow):
            text = alias.expression.text
            raise source.error(
                f"GROUP BY {group.text} means the column '{group.text}', and the select list has only {text} AS "
                f"{group.text}", group,
                detail="a name that is both a column and an alias means the column, as in Spark",
                hint=f"write GROUP BY {text}, or select the column itself and choose another alias",
            )  # fmt: skip
        key = key or alias
        if re.fullmatch(r"[0-9]{1,9}", group.text):
            if not 1 <= int(group.text) <= len(items):
                raise source.error(f"GROUP BY {group.text}: the select list has {len(items)} entries", group)
            key = items[int(group.text) - 1]
        if key is None:
            column = group.text if group.text.isidentifier() else f"{group.text} AS name"
            raise source.error(
                f"'{group.text}' is grouped by and not selected", group,
                detail="a view's keys are columns of its table", hint=f"write SELECT {column}, …",
            )  # fmt: skip
        if key.call is not None:
            raise source.error(f"GROUP BY cannot take an aggregate: '{key.expression.text}'", group)
        left = [item for item in left if item is not key]
    for item in left:
        raise _neither(source, item)


def _neither(source: Source, item: sql.Item) -> SqlError:
    """The error for an entry of the select list that is neither grouped by nor an aggregate."""
    text = item.expression.text
    if text.lower() == "final":
        return source.error("every view has the column 'final' by itself", item.expression, hint="leave it out")
    word = text.split("(")[0].strip()
    if "(" in text and word.isidentifier():
        wrong = no_aggregate(source, Piece(word, item.expression.start, item.expression.start + len(word)))
        if wrong is not None:
            return wrong
    with source.at(item.expression):
        parse(text)
    near = unknown("column", text, WINDOW_COLUMNS)
    if near.hint and text.isidentifier():
        return source.placed(
            DefinitionError(f"'{text}' is neither grouped by nor an aggregate", hint=near.hint), item.expression, {}
        )
    return source.error(
        f"'{text}' is neither grouped by nor an aggregate", item.expression,
        hint=f"add it to GROUP BY, or aggregate it: max({text}) AS …",
    )  # fmt: skip
