"""Rewrites views for the kernel: what is outside its subset of SQL becomes a column that Catalyst computes.

An expression behind `select` steps is written out over the feed's own columns; behind `where` steps it is guarded by
their conditions, so that it is never evaluated on a row that does not get there. The lowered view reads the column in
the expression's place. Everything else of it, and all that its user sees, stays as it was written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial

from sqlglot import exp

from penstock.errors import DefinitionError
from penstock.kernel.expressions import is_of_kernel
from penstock.model.aggregates import Aggregate, Paired, last
from penstock.model.changes import Changes
from penstock.model.explode import Explode, element_types
from penstock.model.expressions import bind, parse
from penstock.model.expressions.parse import canonical
from penstock.model.row_steps import Filter, PythonStep
from penstock.model.stream import Flow, Select, Step, Stream, Union, Where, WithTime, branches
from penstock.model.table import Snapshot, TableJoin, with_snapshots
from penstock.model.triggers import each
from penstock.model.types import Schema
from penstock.model.view import View, check_storable
from penstock.model.watermarks import Punctuated
from penstock.model.windows import Custom, CustomMerging, Named, Window, global_window
from penstock.runtime.epoch.analyst import Analyst
from penstock.runtime.epoch.feeds import Feed, FeedMaker, FeedMakers, Lowered, Output, cut, kernel_stream

#: Fields of aggregates that hold SQL texts.
_TEXTS = ("x", "by", "value", "texts", "where")


def lower(
    streams: Mapping[str, Stream],
    views: Mapping[str, View],
    flows: Mapping[str, Flow],
    analyst: Analyst,
    snapshots: Mapping[str, Snapshot] | None = None,
) -> Lowered:
    """All of an app's views and flows, over feeds that have the columns of all of them, and versions of tables."""
    versions = snapshots or {}
    views = {name: _at(view, versions) for name, view in views.items()}
    flows = {name: with_snapshots(flow, versions) for name, flow in flows.items()}
    makers = FeedMakers(analyst)
    own = {name: _Own(makers.of(stream), analyst) for name, stream in streams.items()}
    walked = {name: _View(view, makers) for name, view in views.items()}
    shown = {name: _Output(flow, makers) for name, flow in flows.items()}
    feeds: dict[str, Feed] = {}
    for maker in makers.made.values():
        if isinstance(maker.source, Changes):
            _check_of_kernel(maker)
        known = not maker.prefix and maker.source.name in own
        stream = own[maker.source.name].stream(maker) if known else _Own(maker, analyst).stream(maker)
        feeds[maker.name] = Feed(maker.name, maker.source, maker.prefix, maker.schema, stream, maker.columns)
    return Lowered(
        feeds,
        {name: one.lowered(feeds) for name, one in walked.items()},
        {name: one.lowered(feeds) for name, one in shown.items()},
    )


def _at(view: View, snapshots: Mapping[str, Snapshot]) -> View:
    flow = with_snapshots(view.input, snapshots)
    return view if flow is view.input else replace(view, input=flow)


def _check_of_kernel(maker: FeedMaker) -> None:
    """A view's changes never reach Spark: only the kernel computes on them."""
    if maker.prefix or not maker.is_plain:
        expression = maker.prefix[-1].label if maker.prefix else next(iter(maker.columns.values()), maker.schema.ddl())
        raise DefinitionError(
            f"'{expression}' needs Spark, and a view over the view '{maker.source.name}' is computed without it",
            hint="compute it in the view below, from the events",
        )


@dataclass
class _Way:
    """A branch as it is walked: its columns as they are so far, and what they are over the feed's columns."""

    maker: FeedMaker
    analyst: Analyst
    schema: Schema
    written: dict[str, exp.Expr | None] = field(default_factory=dict)  # None: a column of the feed
    guards: list[str] = field(default_factory=list)
    steps: list[tuple[str, object]] = field(default_factory=list)
    used: dict[str, None] = field(default_factory=dict)
    beyond: str | None = None  # a step that the kernel has done: what Spark computes must come before
    replaced: int | None = None  # how many steps there were when a function replaced all columns

    def __post_init__(self) -> None:
        self.written = dict.fromkeys(self.schema.names)

    def text(self, text: str, *guards: str) -> str:
        """What the kernel reads for an expression: itself, or Catalyst's column."""
        if bind(text, self.schema).outside is None:
            return text
        if self.beyond is not None:
            raise DefinitionError(
                f"'{text}' needs Spark, and stands after {self.beyond}, which the tasks do",
                hint="compute it before; or set broadcast=False, if it is a table: Spark then joins it",
            )
        kind = self.type_of(text)
        sql = _guarded(self.over_feed(text), [*self.guards, *(self.over_feed(guard) for guard in guards)])
        name = self.maker.column(sql, canonical(parse(sql).tree), kind, text)
        self.used[name] = None
        return name

    def type_of(self, text: str) -> str:
        bound = bind(text, self.schema)
        if bound.outside is None and bound.type is not None:
            return bound.type
        return self.analyst.type_of(self.over_feed(text), self.maker.schema, text)

    def over_feed(self, text: str) -> str:
        """An expression, written out over the feed's own columns."""
        tree = parse(text).tree.copy()
        changed = "--" in text or "/*" in text
        for column in list(tree.find_all(exp.Column)):
            name, *parts = column.parts
            meant = self.written[self.schema.find(name.name)]
            if meant is not None:
                whole: exp.Expr = exp.Paren(this=meant.copy())
                for part in parts:
                    whole = exp.Dot(this=whole, expression=part.copy())
                tree = whole if column is tree else column.replace(whole).root()
                changed = True
        return canonical(tree) if changed else text

    def walk(self, steps: Sequence[Step]) -> None:
        for step in steps:
            if isinstance(step, Where):
                self.steps.append(("where", self.text(step.condition)))
                self.guards += [self.over_feed(step.condition)] if self.beyond is None else []
            elif isinstance(step, WithTime):
                self.steps.append(("with_time", self.text(step.expression)))
            elif isinstance(step, Select):
                self._select(step)
            elif isinstance(step, TableJoin):
                self.steps.append(("join", partial(replace, step, on=tuple(self.text(text) for text in step.on))))
                self.schema, self.beyond = step.schema, f"the join with the table '{step.table.name}'"
            elif isinstance(step, Explode):
                self._explode(step)
            elif isinstance(step, PythonStep):
                takes = Schema(tuple((name, kind) for name, kind in self.schema if is_of_kernel(kind)))
                self.steps.append(("python", partial(replace, step, takes=takes)))
                self.beyond = step.who
                if not isinstance(step, Filter):
                    self.schema, self.replaced = step.schema or self.schema, len(self.steps)

    def _explode(self, step: Explode) -> None:
        elements = element_types(self.type_of(step.expression), step.expression)
        assert elements is not None
        self.steps.append(("explode", partial(replace, step, expression=self.text(step.expression))))
        self.schema = step.over(self.schema, elements)
        self.beyond = step.label

    def _select(self, step: Select) -> None:
        types = {name: self.type_of(text) for name, text in step.columns}
        kept = [(name, self.text(text)) for name, text in step.columns if is_of_kernel(types[name])]
        self.steps.append(("select", kept))
        if self.beyond is None:
            self.written = {name: parse(self.over_feed(text)).tree for name, text in step.columns}
        self.schema = Schema(tuple(types.items()))

    def flow(self, stream: Stream, last: Sequence[tuple[str, str]] | None = None) -> Flow:
        """The branch over the feed. Catalyst's columns that it uses pass through its select steps."""
        flow: Flow = stream
        for number, (kind, what) in enumerate(self.steps):
            if kind == "where":
                flow = Where(flow, str(what))
            elif kind == "with_time":
                flow = WithTime(flow, str(what))
            elif isinstance(what, partial):
                flow = what(input=flow)
            else:
                assert isinstance(what, list)
                gone = self.replaced is not None and number >= self.replaced
                flow = Select(flow, (*what, *(() if gone else ((name, name) for name in self.used))))
        return flow if last is None else Select(flow, tuple(last))


def _guarded(sql: str, guards: Sequence[str]) -> str:
    if not guards:
        return sql
    return f"CASE WHEN {' AND '.join(f'({guard})' for guard in dict.fromkeys(guards))} THEN {sql} END"


class _Own:
    """A feed's own expressions: event time, id, sign and mark."""

    def __init__(self, maker: FeedMaker, analyst: Analyst) -> None:
        source, way = maker.source, _Way(maker, analyst, maker.schema)
        mark = source.watermark.mark if isinstance(source.watermark, Punctuated) and not maker.prefix else None
        texts = (maker.time, None if maker.prefix else source.id, source.sign, mark)
        self._texts = [None if text is None else way.text(text) for text in texts]

    def stream(self, maker: FeedMaker) -> Stream:
        return maker.source if maker.is_plain else kernel_stream(maker, *self._texts)


class _Walked:
    """A flow with its branches walked, and the columns that come out of all of them."""

    def __init__(self, flow: Flow, makers: FeedMakers) -> None:
        self.ways: list[_Way] = []
        for branch in branches(flow):
            maker = makers.at(branch)
            way = _Way(maker, makers.analyst, maker.schema)
            way.walk(cut(branch)[1])
            self.ways.append(way)
        self.schema = self.ways[0].schema
        for way in self.ways[1:]:
            if dict(way.schema) != dict(self.schema):
                raise DefinitionError(
                    "the streams of a union must have the same columns and types",
                    detail=f"'{self.schema.ddl()}' and '{way.schema.ddl()}'",
                    hint="select the common columns first, with casts where types differ",
                )
        self._last: list[dict[str, str]] = [{} for _ in self.ways]

    def text(self, text: str, *guards: str) -> str:
        """What the kernel reads for an expression over what comes out: the same in all branches."""
        names = [way.text(text, *guards) for way in self.ways]
        if len(self.ways) == 1:
            return names[0]
        if names[0] != text:
            common = f"__u{len(self._last[0])}"
            for last_, name in zip(self._last, names, strict=True):
                last_[common] = name
            return common
        for column in bind(text, self.schema).columns:
            for last_ in self._last:
                last_[column] = column
        return text

    def is_plain(self) -> bool:
        return all(way.maker.is_plain and not way.used and way.beyond is None for way in self.ways)

    def flow(self, feeds: Mapping[str, Feed]) -> Flow:
        """All branches over their feeds; those of a union end with the same columns."""
        if len(self.ways) == 1:
            return self.ways[0].flow(feeds[self.ways[0].maker.name].stream)
        parts = zip(self.ways, self._last, strict=True)
        return Union(tuple(way.flow(feeds[way.maker.name].stream, list(end.items())) for way, end in parts))


class _View:
    """A view on its way to the kernel."""

    def __init__(self, view: View, makers: FeedMakers) -> None:
        self.view, self.walked = view, _Walked(view.input, makers)
        for expression in view.expressions:
            check_storable(expression, self.walked.ways[0].type_of(expression))
        text = self.walked.text
        self.keys = tuple((name, text(key)) for name, key in view.keys)
        self.windows = _window(view.windows, tuple(text(column) for column in view.windows.inputs))
        self.aggregates = tuple((name, self._aggregate(aggregate)) for name, aggregate in view.aggregates)

    def _aggregate(self, aggregate: Aggregate) -> Aggregate:
        """The same over Catalyst's columns; behind its filter only the rows that pass it can fail."""
        if isinstance(aggregate, Paired):
            return aggregate.over(self._aggregate(aggregate.live), self._aggregate(aggregate.batch))
        guards = [] if aggregate.where is None else [aggregate.where]
        texts = {text: self.walked.text(text, *guards) for text in aggregate.inputs}
        where = None if aggregate.where is None else self.walked.text(aggregate.where)
        inputs = {part.name: getattr(aggregate, part.name) for part in fields(aggregate) if part.name in _TEXTS}
        made = {name: _in_place(value, texts) for name, value in inputs.items()} | {"where": where}
        changed = {name: value for name, value in made.items() if value != inputs[name]}
        return replace(aggregate, **changed) if changed else aggregate  # type: ignore[arg-type]

    def lowered(self, feeds: Mapping[str, Feed]) -> View:
        if self.walked.is_plain():
            return self.view
        flow = self.walked.flow(feeds)
        return replace(self.view, input=flow, keys=self.keys, windows=self.windows, aggregates=self.aggregates)


class _Output:
    """A flow without state on its way to sinks."""

    def __init__(self, flow: Flow, makers: FeedMakers) -> None:
        self.walked = _Walked(flow, makers)
        self.schema = self.walked.schema
        for name, kind in self.schema:
            check_storable(name, kind)
        self.columns = tuple((name, self.walked.text(f"`{name}`")) for name in self.schema.names)

    def lowered(self, feeds: Mapping[str, Feed]) -> Output:
        texts = dict.fromkeys(text for _, text in self.columns)
        aggregates = tuple((f"c{number}", last(text)) for number, text in enumerate(texts))
        view = View(self.walked.flow(feeds), (), global_window(), aggregates, each())
        return Output(view, self.columns, self.schema)


def _window(window: Window, texts: tuple[str, ...]) -> Window:
    if isinstance(window, (Custom, CustomMerging, Named)) and texts != window.columns:
        return replace(window, columns=texts)
    return window


def _in_place(value: object, texts: Mapping[str, str]) -> object:
    """A field of an aggregate with its texts replaced."""
    if isinstance(value, tuple):
        return tuple(texts[text] for text in value)
    return texts.get(value, value) if isinstance(value, str) else value
