"""Joins of streams from what their user says: `on`, `within` or `window`, `how`, `bounds` and `prefix`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TypeAlias

from sqlglot import exp

from penstock.errors import DefinitionError, in_quotes, unknown
from penstock.model.changes import CHANGE
from penstock.model.expressions import parse
from penstock.model.expressions.parse import canonical
from penstock.model.join import LEFT_ONLY, StreamJoin, check_side
from penstock.model.join_flows import sign_columns
from penstock.model.stream import Flow, Stream
from penstock.model.time import Duration, duration, not_negative
from penstock.model.types import Schema
from penstock.model.versions import Versions
from penstock.model.watermarks import Carried
from penstock.model.windows import Fixed, Window

#: How far apart events may be: either way, or the earliest and the latest time of the right one less the left one's.
Within: TypeAlias = str | timedelta | tuple[str | timedelta, str | timedelta]

#: Which ends of `within` belong to it: for each how much is added to the earliest and to the latest.
BOUNDS = {"inclusive": (0, 0), "exclusive": (1, -1), "left": (0, -1), "right": (1, 0)}


def stream_join(
    left: Flow,
    right: Flow | Versions,
    on: str | Sequence[str] | None,
    within: Within | None,
    window: Window | None,
    how: str,
    prefix: str,
    bounds: str = "inclusive",
) -> StreamJoin:
    """A join of two flows, or of a flow with a table that has versions, from what its user says."""
    if isinstance(right, Versions):
        if (within, window, bounds) != (None, None, "inclusive"):
            raise DefinitionError(
                "a join with versions has no within, window or bounds: an event finds what was valid at its own time",
                hint="leave them out, or leave out .versions(…) to join two streams of events",
            )
        return _as_of_join(left, right, on, how, prefix)
    if on is None:
        raise DefinitionError("a join of streams needs an equality between them", hint="write on='ad = ad_id'")
    if (within is None) == (window is None):
        raise DefinitionError(
            "a join of streams needs a bound on how far apart their events may be, or a window",
            hint="within='1 hour'; within=('-1 hour', '0 seconds'), the right one's time less the left one's; or "
            "window=ps.fixed('…')",
        )
    if bounds not in BOUNDS:
        raise unknown("kind of bounds", bounds, BOUNDS)
    for flow in (left, right):
        check_side(flow)
    pairs = _all_pairs(on, left, right)
    if window is not None and not isinstance(window, Fixed):
        raise DefinitionError(f"streams cannot be joined in {window!r}", hint="window=ps.fixed('10 seconds')")
    gives = left_of(left) if how in LEFT_ONLY else all_of(left, right, pairs, prefix)
    if window is not None:
        if bounds != "inclusive":
            raise DefinitionError("bounds need within, and this join has a window", hint="leave out bounds=…")
        return StreamJoin(left, right, pairs, -window.size, window.size, gives, how, window)
    assert within is not None
    earliest, latest = time_bounds(within)
    if earliest <= latest:
        earliest, latest = earliest + BOUNDS[bounds][0], latest + BOUNDS[bounds][1]
        if earliest > latest:
            raise DefinitionError(
                f"no times lie within {within!r} if bounds={bounds!r}", hint="leave out bounds=…, or widen within"
            )
    return StreamJoin(left, right, pairs, earliest, latest, gives, how)


def _as_of_join(left: Flow, table: Versions, on: str | Sequence[str] | None, how: str, prefix: str) -> StreamJoin:
    """A join with a table that has versions. `on` must name the whole key, and nothing else of the table."""
    check_side(left)
    right = table.flow
    pairs = _all_pairs([f"`{key}`" for key in table.keys] if on is None else on, left, right)
    if {own.strip("`").lower() for _, own in pairs} != {key.lower() for key in table.keys}:
        raise DefinitionError(
            f"the versions are those of {in_quotes(table.keys)}, and the join compares "
            f"{in_quotes(own for _, own in pairs)}",
            hint=f"write on='{' AND '.join(f'… = {key}' for key in table.keys)}', or give .versions(…) that key",
        )
    gives = tuple(one for one in all_of(left, right, pairs, prefix) if one[1:] != (1, table.deleted))
    return StreamJoin(left, right, pairs, 0, 0, gives, how, as_of=True, deleted=table.deleted)


def joined_flow(
    left: Flow,
    right: Flow | Versions,
    on: str | Sequence[str] | None,
    *,
    within: Within | None,
    window: Window | None,
    how: str,
    prefix: str,
    bounds: str,
    name: str | None,
    event_time: str | None,
) -> Stream:
    """What a join of two flows gives, as a stream."""
    join = stream_join(left, right, on, within, window, how, prefix, bounds)
    return stream_of_join(name or default_name(*join.flows), join, event_time)


def stream_of_join(name: str, join: StreamJoin, event_time: str | None = None) -> Stream:
    """What a join gives, as a stream of this name.

    Its watermark follows those of its inputs. By default its event time is the later one of both; with versions that
    of the left.
    """
    time = event_time or join.default_time
    if time is None:
        raise DefinitionError(
            f"the event time of the join '{name}' is not known: not both event times are columns that it gives",
            hint="set event_time='…', or select the columns with the event times",
        )
    schema = Schema((*join.schema, (CHANGE, "int"))) if join.signed else join.schema
    return Stream(name, schema, join, time, Carried(), max_ahead=None, sign=CHANGE if join.signed else None)


def default_name(left: Flow, right: Flow) -> str:
    """The name of a join that has no other: the names of its sources.

    >>> from penstock.model.stream import stream
    >>> default_name(stream("clicks", schema="ad int"), stream("shown", schema="ad int"))
    'clicks_shown_join'
    """
    return "_".join([*(source.name for flow in (left, right) for source in flow.sources), "join"])


def left_of(left: Flow) -> tuple[tuple[str, int, str], ...]:
    """All columns of the left, as a semi or anti join gives them."""
    assert left.schema is not None
    by_sign = sign_columns(left)
    return tuple((name, 0, name) for name in left.schema.names if name not in by_sign)


def all_of(left: Flow, right: Flow, on: Sequence[tuple[str, str]], prefix: str) -> tuple[tuple[str, int, str], ...]:
    """All columns of both, as a join gives them. Those of the right that the left has too begin with the prefix.

    Columns that follow from the sign of a row do not come along: what comes out has a sign of its own.
    """
    assert left.schema is not None
    assert right.schema is not None
    same = {one for one, other in on if one == other and one in left.schema}
    by_sign = sign_columns(left), sign_columns(right)
    columns = [(name, 2 if name in same else 0, name) for name in left.schema.names if name not in by_sign[0]]
    names = {name.lower() for name, _, _ in columns}
    for name in right.schema.names:
        if name in same or name in by_sign[1]:
            continue
        chosen = f"{prefix}{name}" if name.lower() in names else name
        if chosen.lower() in names:
            raise DefinitionError(
                f"both streams have a column '{name}'", hint="set prefix='right_', or select other names before"
            )
        columns.append((chosen, 1, name))
    return tuple(columns)


def time_bounds(within: Within) -> tuple[Duration, Duration]:
    """How much earlier and later the right one may be.

    >>> time_bounds("1 second"), time_bounds(("-2 seconds", "0 seconds"))
    ((-1000000, 1000000), (-2000000, 0))
    """
    if isinstance(within, (list, tuple)):
        if len(within) != 2:
            raise DefinitionError(
                f"within has two bounds, and {within!r} has {len(within)}", hint="within=('-1 hour', '0 seconds')"
            )
        return signed_duration(within[0]), signed_duration(within[1])
    apart = not_negative(within, "within")
    return -apart, apart


def signed_duration(value: str | timedelta) -> Duration:
    """A span of time that may lie before.

    >>> signed_duration("-2 seconds")
    -2000000
    """
    if not isinstance(value, str):
        return duration(value)
    plain = value.strip()
    return -duration(plain[1:].strip()) if plain.startswith("-") else duration(plain)


def _all_pairs(on: str | Sequence[str], left: Flow, right: Flow) -> tuple[tuple[str, str], ...]:
    texts = (on,) if isinstance(on, str) else tuple(on)
    return tuple(pair for text in texts for pair in _pairs(parse(text).tree, left, right))


def _pairs(tree: exp.Expr, left: Flow, right: Flow) -> Iterator[tuple[str, str]]:
    if isinstance(tree, exp.Paren):
        yield from _pairs(tree.this, left, right)
    elif isinstance(tree, exp.And):
        yield from _pairs(tree.this, left, right)
        yield from _pairs(tree.expression, left, right)
    elif isinstance(tree, exp.EQ):
        one, other = canonical(tree.this), canonical(tree.expression)
        yield (one, other) if _binds(one, left) and _binds(other, right) else (other, one)
    elif isinstance(tree, exp.Column):
        yield canonical(tree), canonical(tree)
    else:
        raise DefinitionError(
            f"'{canonical(tree)}' compares no column of one stream with a column of the other",
            hint="write on='ad = ad_id'",
        )


def _binds(text: str, flow: Flow) -> bool:
    return flow.schema is not None and all(name in flow.schema for name in parse(text).columns)
