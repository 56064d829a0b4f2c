"""What changes from the recorded definitions to those of a file, in the order in which it is done: a value.

The costs of a change, the cheapest first:

- `nothing`: what is there goes on, or begins with the next epoch;
- `back-fill`: something new is computed from the history;
- `replacement`: something is computed again from the history, while the old one answers where that is possible;
- `state lost`: something is removed, or begins empty, because the history does not have its past;
- `refused`: it cannot be done; the change says what can.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Literal, TypeAlias

from penstock.plans.definition import Definition, Kind, by_identity

Verb: TypeAlias = Literal["add", "change", "rename", "remove"]
#: How a change is done. `note`: the next start does it by itself. `begin`: with the next epoch. `fill`: from the
#: history. `alter`: the state lives on. `replace`: computed beside the old one, and swapped. `rebuild`: dropped and
#: made again. `reread`: a stream's source is read from its beginning. `rename`, `drop` and `refuse` say it themselves.
Way: TypeAlias = Literal["note", "begin", "fill", "alter", "replace", "rebuild", "reread", "rename", "drop", "refuse"]


class Cost(StrEnum):
    """What a change costs."""

    NOTHING = "nothing"
    BACK_FILL = "back-fill"
    REPLACEMENT = "replacement"
    STATE_LOST = "state lost"
    REFUSED = "refused"


@dataclass(frozen=True)
class Difference:
    """A part of a definition that differs, as text."""

    part: str
    old: str
    new: str


@dataclass(frozen=True)
class Change:
    """A change of one definition: what it costs, how it is done, and what that means. `was` is the name before."""

    verb: Verb
    kind: Kind
    name: str
    cost: Cost
    way: Way
    meaning: str
    differences: tuple[Difference, ...] = ()
    was: str | None = None

    @property
    def subject(self) -> str:
        return f"{self.kind} '{self.name}'"


@dataclass(frozen=True)
class Facts:
    """What the store holds. `whole`: streams of which the history has every event; `past`: those that have events.

    `views` are the views that the store has.
    """

    whole: frozenset[str] = frozenset()
    past: frozenset[str] = frozenset()
    views: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Plan:
    """All changes of an app, in the order in which they are done."""

    app: str
    changes: tuple[Change, ...] = ()

    def costing(self, *costs: Cost) -> tuple[Change, ...]:
        """The changes with one of these costs."""
        return tuple(change for change in self.changes if change.cost in costs)

    def by(self, *ways: Way) -> tuple[Change, ...]:
        """The changes that are done in one of these ways."""
        return tuple(change for change in self.changes if change.way in ways)

    @property
    def refused(self) -> tuple[Change, ...]:
        """The changes that cannot be done."""
        return self.costing(Cost.REFUSED)

    @property
    def lossy(self) -> tuple[Change, ...]:
        """The changes that lose state."""
        return self.costing(Cost.STATE_LOST)

    def without_removals(self) -> Plan:
        """The same, but nothing is removed."""
        return Plan(self.app, tuple(change for change in self.changes if change.verb != "remove"))

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2)


def plan(app: str, recorded: Iterable[Definition], wanted: Iterable[Definition], facts: Facts) -> Plan:
    """The changes that make the wanted definitions of the recorded ones."""
    return Plan(app, tuple(_Planner(tuple(recorded), tuple(wanted), facts).changes()))


@dataclass
class _Planner:
    """Goes through the wanted definitions, each after those that it reads."""

    recorded: tuple[Definition, ...]
    wanted: tuple[Definition, ...]
    facts: Facts
    #: What is made again, by identity: why, and with which cost.
    made_again: dict[str, Change] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.old, self.new = by_identity(self.recorded), by_identity(self.wanted)

    def changes(self) -> Iterable[Change]:
        after = self._renamed()
        renamed = {one.id for one in after.values()}
        gone = [one for id, one in self.old.items() if id not in self.new and id not in renamed]
        for definition in self.wanted:
            change = self._change(definition, after)
            if change is not None:
                yield change
        # Nothing is removed before all else is there. What reads others goes before them.
        gone.reverse()
        yield from (_removal(one, self.facts) for one in sorted(gone, key=removal_order))

    def _renamed(self) -> dict[str, Definition]:
        """By the new identity the old definition, where one only can be meant. Views first: sinks of them follow."""
        gone = [one for id, one in self.old.items() if id not in self.new]
        come = [one for id, one in self.new.items() if id not in self.old]
        renamed: dict[str, Definition] = {}
        for one in sorted(gone, key=lambda one: one.kind == "sink"):
            same = [other for other in come if _is_same(one, other, renamed)]
            before = [other for other in gone if same and _is_same(other, same[0], renamed)]
            if len(same) == 1 and len(before) == 1 and not self._is_read(one, same[0]):
                renamed[same[0].id] = one
        return renamed

    def _is_read(self, *definitions: Definition) -> bool:
        ids = {one.id for one in definitions}
        return any(ids & set(one.reads) for one in (*self.recorded, *self.wanted) if one.kind != "sink")

    def _change(self, new: Definition, renamed: dict[str, Definition]) -> Change | None:
        if new.id in renamed:
            was = renamed[new.id].name
            what = "its rows and its state stay" if new.kind == "view" else "it goes on where it was"
            return Change("rename", new.kind, new.name, Cost.NOTHING, "rename", what, was=was)
        old = self.old.get(new.id)
        if old is not None and new.kind == "sink":
            old = _of_renamed_view(old, new, renamed)
        change = self._addition(new) if old is None else self._difference(old, new)
        if change is not None and change.way in ("rebuild", "replace"):
            self.made_again[new.id] = change
        return change

    # what is new

    def _addition(self, new: Definition) -> Change:
        def add(cost: Cost, way: Way, meaning: str) -> Change:
            return Change("add", new.kind, new.name, cost, way, meaning)

        match new.kind:
            case "stream":
                return add(Cost.NOTHING, "begin", "it is read from where its source begins")
            case "table":
                return add(Cost.NOTHING, "begin", "it is read at the next start")
            case "sink":
                return add(Cost.NOTHING, "begin", "it gets what the outbox still holds, and all that comes")
            case "operator" if self._has_past(new):
                return add(Cost.BACK_FILL, "begin", "it reads the past of its inputs from the history")
            case "operator":
                return add(Cost.NOTHING, "begin", "it begins with the next epoch")
        below = _views(new.reads)
        if below:
            return add(Cost.NOTHING, "begin", f"it begins with what {_named(below)} show{'s' * (len(below) == 1)}")
        fresh = [name for name in self._streams(new) if f"stream {name}" not in self.old]
        if fresh:
            return add(Cost.NOTHING, "begin", f"it begins with what {_named(fresh)} bring{'s' * (len(fresh) == 1)}")
        if new.part("back-fill") == "none":
            return add(Cost.NOTHING, "begin", "it begins with the next epoch, as its definition says")
        if self._has_past(new):
            return add(Cost.BACK_FILL, "fill", "it is computed from all of history")
        why = (
            "there are no events yet" if self._is_whole(new) else "the history does not have all events of its streams"
        )
        return add(Cost.NOTHING, "begin", f"it begins with the next epoch: {why}")

    def _streams(self, definition: Definition) -> list[str]:
        return [one.removeprefix("stream ") for one in definition.reads if one.startswith("stream ")]

    def _is_whole(self, definition: Definition) -> bool:
        """Whether the history has every event of the streams that something reads, or they are new."""
        return all(name in self.facts.whole or f"stream {name}" not in self.old for name in self._streams(definition))

    def _has_past(self, definition: Definition) -> bool:
        """Whether the history has every event of the streams that something reads, and there are some."""
        names = self._streams(definition)
        return all(name in self.facts.whole for name in names) and any(name in self.facts.past for name in names)

    # what is there already

    def _difference(self, old: Definition, new: Definition) -> Change | None:
        lower = [self.made_again[id] for id in new.reads if id in self.made_again]
        differences = _differences(old, new)
        if new.kind in ("view", "operator") and lower:
            followed = self._follows(new, lower, differences)
            if followed is not None:
                return followed
        if old.is_known and old.kind != new.kind:
            return self._made_again(new, differences, f"it was a {old.kind}")
        if not differences:
            return None
        match new.kind:
            case "view":
                return self._changed_view(old, new, differences)
            case "operator":
                return self._changed_operator(old, new, differences)
            case "stream":
                return _changed_stream(new, differences)
            case "table":
                meaning = "it is read again at the next start"
                return Change("change", "table", new.name, Cost.NOTHING, "begin", meaning, differences)
        return _changed_sink(new, differences)

    def _follows(
        self, new: Definition, lower: Collection[Change], differences: tuple[Difference, ...]
    ) -> Change | None:
        """What reads something that is made again is made again with it."""
        rebuilt = [change for change in lower if change.way == "rebuild" or change.kind == "view"]
        if not rebuilt:
            return None
        names = _named([change.name for change in rebuilt])
        cost = max((change.cost for change in rebuilt), key=list(Cost).index)
        meaning = f"it reads {names}: it is dropped and made again with {'it' if len(rebuilt) == 1 else 'them'}"
        return Change("change", new.kind, new.name, cost, "rebuild", meaning + self._again(new), differences)

    def _again(self, view: Definition) -> str:
        """What sinks of something that is dropped and made again see."""
        sinks = [one.name for one in self.wanted if one.kind == "sink" and view.id in one.reads]
        return f"; {_named(sinks)} get{'s' * (len(sinks) == 1)} its rows again" if sinks else ""

    def _changed_view(self, old: Definition, new: Definition, differences: tuple[Difference, ...]) -> Change:
        if old.state == new.state:
            meaning = "its state lives on; windows that are closed stay as they are"
            return Change("change", "view", new.name, Cost.NOTHING, "alter", meaning, differences)
        if _views(new.reads) or not self._is_whole(new):
            why = None if _views(new.reads) else "the history does not have all events of its streams"
            return self._made_again(new, differences, why)
        meaning = "it is computed from all of history while the old one answers, and swapped"
        return Change("change", "view", new.name, Cost.REPLACEMENT, "replace", meaning, differences)

    def _changed_operator(self, old: Definition, new: Definition, differences: tuple[Difference, ...]) -> Change:
        if old.state == new.state or old.state is None:
            meaning = "its state lives on; rows that it has given stay as they are"
            return Change("change", "operator", new.name, Cost.NOTHING, "alter", meaning, differences)
        return self._made_again(new, differences, None)

    def _made_again(self, new: Definition, differences: tuple[Difference, ...], why: str | None) -> Change:
        """A view over views, an operator, or what the history does not have: dropped, and made again."""
        below, again = _views(new.reads), self._again(new)
        if below:
            meaning = f"it is dropped, and begins again with what {_named(below)} show{'s' * (len(below) == 1)}{again}"
            return Change("change", new.kind, new.name, Cost.REPLACEMENT, "rebuild", meaning, differences)
        if self._is_whole(new):
            meaning = f"it is dropped, and made again from the history of its inputs{again}"
            return Change("change", new.kind, new.name, Cost.REPLACEMENT, "rebuild", meaning, differences)
        reason = why or "the history does not have all rows of its inputs"
        meaning = f"it is dropped, and begins empty: {reason}{again}"
        return Change("change", new.kind, new.name, Cost.STATE_LOST, "rebuild", meaning, differences)


def _of_renamed_view(old: Definition, new: Definition, renamed: Mapping[str, Definition]) -> Definition:
    """A sink as it was, but with the name that its view has now."""
    was = [renamed[id].id if id in renamed else id for id in new.reads]
    if was == list(new.reads) or was != list(old.reads):
        return old
    parts = tuple((name, new.part(name) if name == "rows of" else text) for name, text in old.parts)
    return replace(old, parts=parts, reads=new.reads)


def _is_same(old: Definition, new: Definition, renamed: Mapping[str, Definition]) -> bool:
    """Whether two definitions differ in their names only. Streams have their names in what they read and keep."""
    if old.kind != new.kind or old.kind not in ("view", "sink") or not old.is_known:
        return False
    old = _of_renamed_view(old, new, renamed)
    return (old.parts, old.state, old.reads) == (new.parts, new.state, new.reads)


def _differences(old: Definition, new: Definition) -> tuple[Difference, ...]:
    if not old.is_known:  # recorded by an earlier version: only what its state was computed by is known
        is_other = old.state is not None and old.state != new.state
        return (Difference("definition", "another one", "this one"),) if is_other else ()
    before, after = dict(old.parts), dict(new.parts)
    names = dict.fromkeys([*before, *after])
    return tuple(
        Difference(name, before.get(name, ""), after.get(name, ""))
        for name in names
        if before.get(name, "") != after.get(name, "")
    )


def _changed_stream(new: Definition, differences: tuple[Difference, ...]) -> Change:
    parts = {one.part for one in differences}

    def change(cost: Cost, way: Way, meaning: str) -> Change:
        return Change("change", "stream", new.name, cost, way, meaning, differences)

    if "source" in parts:
        meaning = "how far the old source was read is forgotten: the new one is read from its beginning; events stay"
        return change(Cost.STATE_LOST, "reread", meaning)
    if "schema" in parts:
        return change(Cost.NOTHING, "alter", "columns that are new are null in the past")
    return change(Cost.NOTHING, "alter", "from the next epoch on; events so far stay as they are")


def _changed_sink(new: Definition, differences: tuple[Difference, ...]) -> Change:
    parts = {one.part for one in differences}
    if "columns" in parts and "to" not in parts:
        meaning = (
            "rows with other columns would go where the old ones are: give the sink another name, or another target"
        )
        return Change("change", "sink", new.name, Cost.REFUSED, "refuse", meaning, differences)
    meaning = "rows go there from here on; those that were delivered stay where they are"
    return Change("change", "sink", new.name, Cost.NOTHING, "alter", meaning, differences)


def _removal(old: Definition, facts: Facts) -> Change:
    def remove(cost: Cost, meaning: str) -> Change:
        return Change("remove", old.kind, old.name, cost, "drop", meaning)

    match old.kind:
        case "view":
            return remove(Cost.STATE_LOST, "its rows are removed")
        case "sink":
            return remove(Cost.NOTHING, "what was delivered stays; how far it was is forgotten")
        case "table":
            return remove(Cost.NOTHING, "it is read no more")
        case "operator":
            return remove(Cost.STATE_LOST, "its state and the history of its rows are removed")
    has = " with its events" if old.name in facts.past else ""
    return remove(Cost.STATE_LOST, f"its history{has} is removed, and how far its source was read")


def removal_order(definition: Definition) -> int:
    """What others may read goes last."""
    return ("sink", "view", "operator", "stream", "table").index(definition.kind)


def _views(reads: Iterable[str]) -> list[str]:
    return [one.removeprefix("view ") for one in reads if one.startswith("view ")]


def _named(names: Collection[str]) -> str:
    return " and ".join(f"'{name}'" for name in names)
