"""Joins of streams as SQL writes them: SELECT … FROM a AS l LEFT JOIN b AS r ON …"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from penstock.errors import DefinitionError
from penstock.model.expressions import parse
from penstock.model.expressions.parse import canonical
from penstock.model.join import LEFT_ONLY, StreamJoin
from penstock.model.join_definition import all_of, left_of
from penstock.model.stream import Flow, Stream, WithTime
from penstock.model.time import SECOND, Duration
from penstock.model.watermarks import Carried
from penstock.sql.flow import event_time
from penstock.sql.words import interval, show_window

_WORDS = {
    "inner": "JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN", "semi": "LEFT SEMI JOIN",
    "anti": "LEFT ANTI JOIN",
}  # fmt: skip
MILLISECOND = SECOND // 1000
#: What stands before the columns of each side.
_SIDES = ("l", "r")


def show_join(join: StreamJoin, relation: Callable[[Flow], str], identifier: Callable[[str], str]) -> str:
    """The SELECT that a join is. `relation` writes what stands after FROM for a flow, `identifier` a name."""
    left, right = (_side(join, number, relation) for number in (0, 1))
    on = [f"{_of(0, one)} = {_of(1, other)}" for one, other in join.on]
    if join.as_of:
        on += [] if join.deleted is None else [f"{_of(1, join.deleted)} IS NOT TRUE"]
    else:
        on.append(_times(join))
    lines = [f"SELECT {_columns(join, identifier)}", f"FROM {left} {_WORDS[join.how]} {right}"]
    return "\n  ".join([*lines, f"ON {' AND '.join(on)}"])


def undeclared_join(flow: Flow) -> StreamJoin | None:
    """The join that a flow is, if it is one that has no statement of its own."""
    return flow.log if isinstance(flow, Stream) and isinstance(flow.log, StreamJoin) else None


def carries_watermark(stream: Stream) -> bool:
    """Whether the watermark of a stream follows that of its input: then SQL does not mention it."""
    return isinstance(stream.watermark, Carried)


def _side(join: StreamJoin, number: int, relation: Callable[[Flow], str]) -> str:
    flow = (join.left, join.right)[number]
    if join.as_of and number == 1:
        return f"{relation(flow)} FOR SYSTEM_TIME AS OF {_of(0, _time_of(join.left))} AS {_SIDES[1]}"
    if join.window is None:
        return f"{relation(flow)} AS {_SIDES[number]}"
    if isinstance(flow, WithTime):
        return f"{show_window(join.window, relation(flow.input), flow.expression)} AS {_SIDES[number]}"
    return f"{show_window(join.window, relation(flow), _time_of(flow))} AS {_SIDES[number]}"


def _columns(join: StreamJoin, identifier: Callable[[str], str]) -> str:
    if _all(join) == join.gives:
        return "*"
    items = []
    for name, side, own in join.gives:
        text = identifier(own) if side == 2 else f"{_SIDES[side]}.{identifier(own)}"
        items.append(text if name == own else f"{text} AS {identifier(name)}")
    return ", ".join(items)


def _all(join: StreamJoin) -> tuple[tuple[str, int, str], ...] | None:
    if join.how in LEFT_ONLY:
        return left_of(join.left)
    try:
        columns = all_of(join.left, join.right, join.on, f"{_SIDES[1]}_")
        return tuple(column for column in columns if column[1:] != (1, join.deleted))
    except DefinitionError:
        return None


def _times(join: StreamJoin) -> str:
    if join.window is not None:
        return "l.window_start = r.window_start"
    left, right = _of(0, _time_of(join.left)), _of(1, _time_of(join.right))
    if not _is_odd(join.earliest) and not _is_odd(join.latest):
        return f"{right} BETWEEN {_shifted(left, join.earliest)} AND {_shifted(left, join.latest)}"
    after = f"{right} >= {_shifted(left, join.earliest)}"
    if _is_odd(join.earliest):
        after = f"{right} > {_shifted(left, join.earliest - 1)}"
    before = f"{right} <= {_shifted(left, join.latest)}"
    if _is_odd(join.latest):
        before = f"{right} < {_shifted(left, join.latest + 1)}"
    return f"{after} AND {before}"


def _is_odd(by: Duration) -> bool:
    """Whether a bound is a microsecond beside a plain one: then it was written as < or >."""
    return by % MILLISECOND in (1, MILLISECOND - 1)


def _shifted(time: str, by: Duration) -> str:
    return time if by == 0 else f"{time} {'-' if by < 0 else '+'} {interval(abs(by))}"


def _time_of(flow: Flow) -> str:
    time = event_time(flow)
    if time is None:
        raise DefinitionError("SQL cannot express this join: its streams have event times of different names")
    return time


def _of(side: int, text: str) -> str:
    """An expression of a side, with its columns qualified."""

    def qualified(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        names = [exp.to_identifier(_SIDES[side]), *(part.copy() for part in node.parts)]
        return exp.Column(**dict(zip(("this", "table", "db", "catalog"), reversed(names), strict=False)))

    return canonical(parse(text).tree.transform(qualified))
