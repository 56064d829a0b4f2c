"""Triggers on columns: each node of a trigger becomes a few state columns and expressions over them.

The five functions of the model (`start`, `add`, `merge`, `ready`, `fired`) appear here as expressions that are
evaluated for all windows of a commit at once. The model's scalar version is the specification.

>>> from penstock.model.triggers import after_count, repeatedly
>>> list(compile_trigger(repeatedly(after_count(3))).columns)
['trigger:1.n']
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count

import polars as pl

from penstock.model import triggers as model
from penstock.model.time import END, Instant

Updates = dict[str, pl.Expr]
FALSE, TRUE = pl.lit(False), pl.lit(True)


@dataclass(frozen=True)
class Moment:
    """What triggers may know at the end of a commit, as columns and literals."""

    now: Instant
    complete: pl.Expr
    closed: pl.Expr
    complete_to: Callable[[float], pl.Expr]


@dataclass(frozen=True)
class StateColumn:
    """A column of firing state: its type, and how the windows that merge agree on it (nulls are fresh windows)."""

    dtype: pl.DataType
    merge: Callable[[pl.Expr], pl.Expr]


class Node(ABC):
    """A trigger on columns."""

    def __init__(self) -> None:
        self.columns: dict[str, StateColumn] = {}

    @abstractmethod
    def start(self, moment: Moment) -> Updates: ...

    def add(self, elements: pl.Expr, now: Instant) -> Updates:
        """The state after elements came; rows without new elements are not asked."""
        return {}

    def after_merge(self, moment: Moment) -> Updates:
        """What changes when a window has absorbed others; `moment` is judged by the watermark before the commit."""
        return {}

    @abstractmethod
    def ready(self, moment: Moment) -> pl.Expr: ...

    @abstractmethod
    def fired(self, moment: Moment) -> tuple[Updates, pl.Expr]:
        """The state after a firing of this node, and whether it has finished."""

    def over(self, moment: Moment) -> pl.Expr:
        """Whether it has finished as it starts."""
        return FALSE

    def stays(self, moment: Moment) -> pl.Expr:
        """Whether it is still finished after a merge of windows in all of which it was; before `after_merge`."""
        return TRUE

    def shows_rest(self) -> pl.Expr:
        return TRUE

    @property
    def chains(self) -> bool:
        """Whether one firing may make it ready for the next, with nothing new: such windows are judged again."""
        return False

    def due(self) -> pl.Expr:
        """The processing time before which no passing of time alone makes this ready."""
        return pl.lit(END)


class AfterCount(Node):
    def __init__(self, trigger: model.AfterCount, name: str) -> None:
        super().__init__()
        self.count, self.name = trigger.count, f"{name}.n"
        self.columns = {self.name: StateColumn(pl.Int64(), pl.Expr.sum)}

    def start(self, moment: Moment) -> Updates:
        return {self.name: pl.lit(0, pl.Int64)}

    def add(self, elements: pl.Expr, now: Instant) -> Updates:
        return {self.name: pl.col(self.name) + elements}

    def ready(self, moment: Moment) -> pl.Expr:
        return pl.col(self.name) >= self.count

    def fired(self, moment: Moment) -> tuple[Updates, pl.Expr]:
        return {}, TRUE


class AfterDelay(Node):
    def __init__(self, trigger: model.AfterDelay, name: str) -> None:
        super().__init__()
        self.period, self.name = trigger.delay, f"{name}.since"
        self.columns = {self.name: StateColumn(pl.Int64(), pl.Expr.min)}

    def start(self, moment: Moment) -> Updates:
        return {self.name: pl.lit(None, pl.Int64)}

    def add(self, elements: pl.Expr, now: Instant) -> Updates:
        return {self.name: pl.col(self.name).fill_null(now)}

    def due(self) -> pl.Expr:
        return (pl.col(self.name) + self.period).fill_null(END)

    def ready(self, moment: Moment) -> pl.Expr:
        return self.due() <= moment.now

    def fired(self, moment: Moment) -> tuple[Updates, pl.Expr]:
        return {}, TRUE


class Every(AfterDelay):
    def due(self) -> pl.Expr:
        since = pl.col(self.name)
        return (since - since % self.period + self.period).fill_null(END)

    def fired(self, moment: Moment) -> tuple[Updates, pl.Expr]:
        return {self.name: pl.lit(None, pl.Int64)}, FALSE


class Completeness(Node):
    def __init__(self, trigger: model.Completeness) -> None:
        super().__init__()
        self.percent = trigger.percent

    def start(self, moment: Moment) -> Updates:
        return {}

    def ready(self, moment: Moment) -> pl.Expr:
        return moment.complete | moment.complete_to(self.percent)

    def fired(self, moment: Moment) -> tuple[Updates, pl.Expr]:
        return {}, TRUE


class OnClose(Node):
    def start(self, moment: Moment) -> Updates:
        return {}

    def ready(self, moment: Moment) -> pl.Expr:
        return moment.closed

    def fired(self, moment: Moment) -> tuple[Updates, pl.Expr]:
        return {}, TRUE


class Never(Node):
    def start(self, moment: Moment) -> Updates:
        return {}

    def ready(self, moment: Moment) -> pl.Expr:
        return FALSE

    def fired(self, moment: Moment) -> tuple[Updates, pl.Expr]:
        return {}, FALSE

    def shows_rest(self) -> pl.Expr:
        return FALSE


class Composed(Node):
    """A node with parts; what it does not say itself it passes on to all of them."""

    def __init__(self, parts: list[Node]) -> None:
        super().__init__()
        self.parts = parts
        for part in parts:
            self.columns |= part.columns

    def start(self, moment: Moment) -> Updates:
        return _together(*(part.start(moment) for part in self.parts))

    def add(self, elements: pl.Expr, now: Instant) -> Updates:
        return _together(*(part.add(elements, now) for part in self.parts))

    def after_merge(self, moment: Moment) -> Updates:
        return _together(*(part.after_merge(moment) for part in self.parts))

    def due(self) -> pl.Expr:
        return pl.min_horizontal(*(part.due() for part in self.parts))

    @property
    def chains(self) -> bool:
        return any(part.chains for part in self.parts)


class OnTime(Composed):
    def __init__(self, trigger: model.OnTime, early: Node, late: Node, name: str) -> None:
        super().__init__([early, late])
        self.early, self.late, self.name = early, late, f"{name}.passed"
        self.ends = trigger.ends_with_window
        self.columns[self.name] = StateColumn(pl.Boolean(), pl.Expr.all)

    def start(self, moment: Moment) -> Updates:
        return super().start(moment) | {self.name: moment.complete}

    def add(self, elements: pl.Expr, now: Instant) -> Updates:
        passed = pl.col(self.name)
        return _where(~passed, self.early.add(elements, now)) | _where(passed, self.late.add(elements, now))

    def after_merge(self, moment: Moment) -> Updates:
        return super().after_merge(moment) | {self.name: pl.col(self.name) & moment.complete}

    def ready(self, moment: Moment) -> pl.Expr:
        early = moment.complete | self.early.ready(moment)
        return pl.when(pl.col(self.name)).then(self.late.ready(moment)).otherwise(early)

    def fired(self, moment: Moment) -> tuple[Updates, pl.Expr]:
        passed = pl.col(self.name)
        passing = ~passed & moment.complete
        early = _where(passing, self.early.start(moment), _where(~passed, _again(self.early, moment)))
        late = _where(passing, self.late.start(moment), _where(passed, _again(self.late, moment)))
        return early | late | {self.name: passed | moment.complete}, passing if self.ends else FALSE

    def over(self, moment: Moment) -> pl.Expr:
        return moment.complete if self.ends else FALSE

    def stays(self, moment: Moment) -> pl.Expr:
        return moment.complete

    def shows_rest(self) -> pl.Expr:
        return self.late.shows_rest()

    def due(self) -> pl.Expr:
        return pl.when(pl.col(self.name)).then(self.late.due()).otherwise(self.early.due())


class Repeatedly(Composed):
    def ready(self, moment: Moment) -> pl.Expr:
        return self.parts[0].ready(moment)

    def fired(self, moment: Moment) -> tuple[Updates, pl.Expr]:
        return _again(self.parts[0], moment), FALSE

    def shows_rest(self) -> pl.Expr:
        return self.parts[0].shows_rest()


class Several(Composed):
    """Parts side by side, each with a column that says whether it has finished."""

    def __init__(self, parts: list[Node], name: str) -> None:
        super().__init__(parts)
        self.done = [f"{name}.done{i}" for i in range(len(parts))]
        for done in self.done:
            self.columns[done] = StateColumn(pl.Boolean(), pl.Expr.all)

    def start(self, moment: Moment) -> Updates:
        done = {name: part.over(moment) for part, name in zip(self.parts, self.done, strict=True)}
        return super().start(moment) | done

    def after_merge(self, moment: Moment) -> Updates:
        return super().after_merge(moment) | dict(zip(self.done, self._done_after_merge(moment), strict=True))

    def _done_after_merge(self, moment: Moment) -> list[pl.Expr]:
        return [pl.col(name) & part.stays(moment) for part, name in zip(self.parts, self.done, strict=True)]

    def advance(self, moment: Moment) -> tuple[Updates, list[pl.Expr]]:
        """Tells the parts that are ready that a pane fired; which have finished then."""
        updates: Updates = {}
        finished = []
        for part, name in zip(self.parts, self.done, strict=True):
            fires = ~pl.col(name) & part.ready(moment)
            after, done = part.fired(moment)
            updates |= _where(fires, after)
            updates[name] = pl.col(name) | (fires & done)
            finished.append(updates[name])
        return updates, finished

    @property
    def chains(self) -> bool:
        return True


class AnyOf(Several):
    def __init__(self, trigger: model.AnyOf, parts: list[Node], name: str) -> None:
        super().__init__(parts, name)
        self.may_reopen = any(part.ends_with_window for part in trigger.parts)

    def ready(self, moment: Moment) -> pl.Expr:
        return pl.any_horizontal(*(part.ready(moment) for part in self.parts))

    def fired(self, moment: Moment) -> tuple[Updates, pl.Expr]:
        updates, finished = self.advance(moment)
        return updates, pl.any_horizontal(*finished)

    def over(self, moment: Moment) -> pl.Expr:
        return pl.any_horizontal(*(part.over(moment) for part in self.parts))

    def stays(self, moment: Moment) -> pl.Expr:
        return pl.any_horizontal(*self._done_after_merge(moment)) if self.may_reopen else TRUE

    def shows_rest(self) -> pl.Expr:
        return pl.any_horizontal(*(part.shows_rest() for part in self.parts))


class AllOf(Several):
    def ready(self, moment: Moment) -> pl.Expr:
        parts = zip(self.parts, self.done, strict=True)
        return pl.all_horizontal(*(pl.col(done) | part.ready(moment) for part, done in parts))

    def fired(self, moment: Moment) -> tuple[Updates, pl.Expr]:
        updates, finished = self.advance(moment)
        return updates, pl.all_horizontal(*finished)

    def over(self, moment: Moment) -> pl.Expr:
        return pl.all_horizontal(*(part.over(moment) for part in self.parts))

    def stays(self, moment: Moment) -> pl.Expr:
        return pl.all_horizontal(*self._done_after_merge(moment))

    def shows_rest(self) -> pl.Expr:
        return pl.all_horizontal(*(part.shows_rest() for part in self.parts))


class InTurn(Composed):
    """Parts one after the other. Windows that merge keep the state of those that are least far."""

    def __init__(self, trigger: model.InTurn, parts: list[Node], name: str) -> None:
        super().__init__(parts)
        self.turn, self.last = f"{name}.turn", len(parts) - 1
        self.ends = [part.ends_with_window for part in trigger.parts]
        turn = pl.col(self.turn)
        for i, part in enumerate(parts):
            for column, state in part.columns.items():
                least = (turn == turn.min()) & (turn == i)
                self.columns[column] = StateColumn(state.dtype, _merge_where(least, state.merge))
        self.columns[self.turn] = StateColumn(pl.Int32(), pl.Expr.min)

    def _from(self, first: int, moment: Moment) -> pl.Expr:
        """The first turn from there on whose part is not over already, or else the last."""
        chosen = pl.lit(self.last, pl.Int32)
        for i in reversed(range(first, self.last)):
            chosen = pl.when(self.parts[i].over(moment)).then(chosen).otherwise(pl.lit(i, pl.Int32))
        return chosen

    def start(self, moment: Moment) -> Updates:
        return super().start(moment) | {self.turn: self._from(0, moment)}

    def add(self, elements: pl.Expr, now: Instant) -> Updates:
        return _together(
            *(_where(pl.col(self.turn) == i, part.add(elements, now)) for i, part in enumerate(self.parts))
        )

    def after_merge(self, moment: Moment) -> Updates:
        """A part that had finished with the end of its window has its turn again if the merged window's is to come."""
        turn, updates = self._turn_after_merge(moment), super().after_merge(moment)
        for part, ends in zip(self.parts, self.ends, strict=True):
            if ends:
                updates |= _where(turn < pl.col(self.turn), part.start(moment), part.after_merge(moment))
        return updates | {self.turn: turn}

    def _turn_after_merge(self, moment: Moment) -> pl.Expr:
        turn = pl.col(self.turn)
        for i in reversed([i for i in range(self.last) if self.ends[i]]):
            turn = pl.when(~moment.complete & (pl.col(self.turn) > i)).then(pl.lit(i, pl.Int32)).otherwise(turn)
        return turn

    def ready(self, moment: Moment) -> pl.Expr:
        return self._mine([part.ready(moment) for part in self.parts])

    def fired(self, moment: Moment) -> tuple[Updates, pl.Expr]:
        turn, after = pl.col(self.turn), [part.fired(moment) for part in self.parts]
        following, finished = turn, (turn == self.last) & after[self.last][1]
        for i in range(self.last):
            moves = (turn == i) & after[i][1]
            following = pl.when(moves).then(self._from(i + 1, moment)).otherwise(following)
            spent = pl.all_horizontal(*(part.over(moment) for part in self.parts[i + 1 :]))
            finished = finished | (moves & spent)
        updates: Updates = {}
        for i, part in enumerate(self.parts):
            updates |= _where((turn < i) & (following == i), part.start(moment), _where(turn == i, after[i][0]))
        return updates | {self.turn: following}, finished

    def over(self, moment: Moment) -> pl.Expr:
        return pl.all_horizontal(*(part.over(moment) for part in self.parts))

    def stays(self, moment: Moment) -> pl.Expr:
        return (self._turn_after_merge(moment) == self.last) & self.parts[self.last].stays(moment)

    def shows_rest(self) -> pl.Expr:
        return self._mine([part.shows_rest() for part in self.parts])

    def due(self) -> pl.Expr:
        return self._mine([part.due() for part in self.parts])

    @property
    def chains(self) -> bool:
        return True

    def _mine(self, several: list[pl.Expr]) -> pl.Expr:
        chosen = several[-1]
        for i, expression in reversed(list(enumerate(several[:-1]))):
            chosen = pl.when(pl.col(self.turn) == i).then(expression).otherwise(chosen)
        return chosen


class OrFinally(Composed):
    def ready(self, moment: Moment) -> pl.Expr:
        return self.parts[0].ready(moment) | self.parts[1].ready(moment)

    def fired(self, moment: Moment) -> tuple[Updates, pl.Expr]:
        ends = self.parts[1].ready(moment)
        updates, done = self.parts[0].fired(moment)
        return _where(~ends, updates), ends | done

    def over(self, moment: Moment) -> pl.Expr:
        return self.parts[0].over(moment) | self.parts[1].over(moment)

    def shows_rest(self) -> pl.Expr:
        return self.parts[0].shows_rest() | self.parts[1].shows_rest()


def compile_trigger(trigger: model.Trigger) -> Node:
    """The trigger on columns. Its columns are named trigger:0, trigger:1, … in the order of its nodes."""
    return _compile(trigger, count())


def _compile(trigger: model.Trigger, numbers: count[int]) -> Node:
    name = f"trigger:{next(numbers)}"
    parts = [_compile(part, numbers) for part in trigger.parts] if trigger.parts else []
    match trigger:
        case model.AfterCount():
            return AfterCount(trigger, name)
        case model.Every():
            return Every(trigger, name)
        case model.AfterDelay():
            return AfterDelay(trigger, name)
        case model.Completeness():
            return Completeness(trigger)
        case model.OnClose():
            return OnClose()
        case model.Never():
            return Never()
        case model.OnTime():
            return OnTime(trigger, parts[0], parts[1], name)
        case model.Repeatedly():
            return Repeatedly(parts)
        case model.AnyOf():
            return AnyOf(trigger, parts, name)
        case model.AllOf():
            return AllOf(parts, name)
        case model.InTurn():
            return InTurn(trigger, parts, name)
        case model.OrFinally():
            return OrFinally(parts)
    raise TypeError(f"no kernel for {trigger!r}")


def apply(condition: pl.Expr, updates: Mapping[str, pl.Expr]) -> list[pl.Expr]:
    """The updates as columns of a frame, where the condition holds."""
    return [expression.alias(name) for name, expression in _where(condition, dict(updates)).items()]


def _where(condition: pl.Expr, updates: Updates, otherwise: Updates | None = None) -> Updates:
    """`updates` where the condition holds, elsewhere `otherwise`, and what neither names stays as it is."""
    rest = otherwise or {}
    return {
        name: pl.when(condition).then(updates.get(name, pl.col(name))).otherwise(rest.get(name, pl.col(name)))
        for name in {**updates, **rest}
    }


def _again(node: Node, moment: Moment) -> Updates:
    """The state after a firing of a node that is repeated: it starts afresh when it has finished."""
    after, done = node.fired(moment)
    return _where(done, node.start(moment), after)


def _merge_where(condition: pl.Expr, merge: Callable[[pl.Expr], pl.Expr]) -> Callable[[pl.Expr], pl.Expr]:
    """A merge of only those windows for which a condition holds."""
    return lambda column: merge(pl.when(condition).then(column))


def _together(*several: Updates) -> Updates:
    return {name: expression for updates in several for name, expression in updates.items()}
