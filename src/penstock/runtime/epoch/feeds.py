"""Feeds: what the kernel reads in an epoch. A stream itself is one, and so is what DataFrame code makes of it.

A feed's frame has the stream's columns, or those that came out of the code, and beside them the columns that Catalyst
computes for expressions outside the kernel: one for each distinct expression, shared by all views that have it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from zlib import crc32

from penstock.errors import DefinitionError
from penstock.kernel.expressions import is_of_kernel
from penstock.model.expressions import parse
from penstock.model.naming import function_identity
from penstock.model.stream import Branch, Flow, Step, Stream, Transform, WithTime
from penstock.model.table import Snapshot, TableJoin, tables
from penstock.model.types import Schema
from penstock.model.view import View
from penstock.model.watermarks import Punctuated, bounded
from penstock.runtime.epoch.analyst import Analyst, spelled

#: How the names of Catalyst's columns begin.
CATALYST = "__x"


@dataclass(frozen=True)
class Feed:
    """What one job reads. `stream` is what the kernel takes it for; `columns` are Catalyst's, name → SQL."""

    name: str
    source: Stream
    prefix: tuple[Step, ...]
    schema: Schema
    stream: Stream
    columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def place(self) -> int | None:
        """The partition of rows that DataFrame code made: below zero, so that no log has it."""
        return -1 - crc32(self.name.encode()) % (1 << 30) if self.prefix else None


@dataclass(frozen=True)
class Output:
    """Rows of a flow without state, on their way to sinks: a view of its columns, which only the tasks look at."""

    view: View
    columns: tuple[tuple[str, str], ...]  # name, the view's text for it
    schema: Schema


@dataclass(frozen=True)
class Lowered:
    """An app's views as the kernel takes them, and the feeds that they read."""

    feeds: Mapping[str, Feed]
    views: Mapping[str, View]
    outputs: Mapping[str, Output]
    snapshots: Mapping[str, Snapshot] = field(default_factory=dict)  # the versions of tables that it was made with

    def versions(self, flows: Iterable[Flow], beside: Iterable[str] = ()) -> dict[str, int]:
        """The versions of the tables that flows read, and of those that code reads beside them."""
        if not self.snapshots:
            return {}
        names = {name for flow in flows for name in tables(flow)} | set(beside)
        return {name: self.snapshots[name].version for name in sorted(names)}

    def of(self, stream: str) -> list[Feed]:
        """The feeds that a stream gives, itself first."""
        return [feed for feed in self.feeds.values() if feed.source.name == stream]


class FeedMaker:
    """A feed as it grows while views are looked at."""

    def __init__(self, name: str, source: Stream, prefix: tuple[Step, ...], schema: Schema, time: str | None) -> None:
        self.name, self.source, self.prefix, self.schema, self.time = name, source, prefix, schema, time
        self.columns: dict[str, str] = {}
        self.types: dict[str, str] = {}

    def column(self, sql: str, spelling: str, kind: str, text: str) -> str:
        """The name of the column with this expression's value."""
        if not is_of_kernel(kind):
            raise DefinitionError(
                f"'{text}' is {kind}, which the kernel has no columns for",
                hint="take a part of it, or a text: to_json(…)",
            )
        name = CATALYST + hashlib.sha256(spelling.encode()).hexdigest()[:12]
        self.columns.setdefault(name, sql)
        self.types[name] = kind
        return name

    @property
    def is_plain(self) -> bool:
        """Whether the kernel takes the stream as it is."""
        return not self.prefix and not self.columns and all(is_of_kernel(kind) for _, kind in self.schema)

    @property
    def kernel_schema(self) -> Schema:
        own = tuple((name, kind) for name, kind in self.schema if is_of_kernel(kind))
        return Schema((*own, *self.types.items()))


def cut(branch: Branch) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """The steps that Spark does, up to its last, and those that are left to the kernel."""
    last = max((n for n, step in enumerate(branch.steps) if _by_spark(step)), default=-1)
    return branch.steps[: last + 1], branch.steps[last + 1 :]


def _by_spark(step: Step) -> bool:
    """Whether a step is Spark's: DataFrame code, and a join with a table that is left to it."""
    return isinstance(step, Transform) or (isinstance(step, TableJoin) and step.by_spark)


class FeedMakers:
    """The feeds of an app, each made once."""

    def __init__(self, analyst: Analyst) -> None:
        self.analyst = analyst
        self.made: dict[tuple[object, ...], FeedMaker] = {}

    def of(self, source: Stream) -> FeedMaker:
        """The stream itself."""
        key = (source.name,)
        if key not in self.made:
            self.made[key] = FeedMaker(source.name, source, (), source.schema, source.event_time)
        return self.made[key]

    def at(self, branch: Branch) -> FeedMaker:
        """The feed that a branch begins with."""
        prefix, rest = cut(branch)
        if not prefix:
            return self.of(branch.source)
        timed = branch.source.event_time is not None and not any(isinstance(step, WithTime) for step in rest)
        key = (branch.source.name, spelled(prefix), timed)
        if key not in self.made:
            self.made[key] = self._after_code(branch.source, prefix, timed)
        return self.made[key]

    def _after_code(self, source: Stream, prefix: tuple[Step, ...], timed: bool) -> FeedMaker:
        schema = self.analyst.output(source.schema, prefix)
        moved = [step.expression for step in prefix if isinstance(step, WithTime)]
        time = (moved[-1] if moved else source.event_time) if timed else None
        for what, text, hint in (
            ("event time", time, "keep it in what the function returns, or call .with_time(…) after the transform"),
            ("sign", source.sign, "keep it in what the function returns"),
        ):
            lacking = sorted(name for name in parse(text).columns if name not in schema) if text else []
            if lacking:
                raise DefinitionError(
                    f"{prefix[-1].label} leaves out '{lacking[0]}', which the {what} of '{source.name}' is made of",
                    detail=f"its columns are {', '.join(schema.names)}",
                    hint=hint,
                )
        digest = hashlib.sha256(repr((source.name, timed, _stable(prefix))).encode()).hexdigest()[:8]
        alike = sum(maker.name.startswith(f"{source.name}__{digest}") for maker in self.made.values())
        name = f"{source.name}__{digest}" + (f"_{alike}" if alike else "")
        return FeedMaker(name, source, prefix, schema, time)


def _stable(steps: tuple[Step, ...]) -> list[object]:
    """What steps do, the same in every process."""
    return [tuple(function_identity(part) if callable(part) else part for part in parts) for parts in spelled(steps)]


def kernel_stream(maker: FeedMaker, time: str | None, id: str | None, sign: str | None, mark: str | None) -> Stream:
    """What the kernel takes a feed for, with its own expressions as the kernel reads them.

    After DataFrame code only the rows' own event time counts: duplicates were removed before it, and the watermark is
    the stream's.
    """
    source = maker.source
    watermark = source.watermark
    if isinstance(watermark, Punctuated):
        marked = replace(watermark, mark=mark or watermark.mark)
        watermark = bounded("0 seconds") if maker.prefix else marked
    if maker.prefix:
        # Where a step gives the rows their time, what they have before it does not matter.
        time = time or (None if watermark is None else "CAST('1970-01-01 00:00:00' AS TIMESTAMP)")
        return Stream(maker.name, maker.kernel_schema, None, time, watermark, max_ahead=None, sign=sign)
    return Stream(
        source.name, maker.kernel_schema, source.log, time, watermark, id, source.id_horizon, source.max_ahead, sign
    )
