"""Transcripts: what goes into a view and exactly what must come out of it, commit by commit, as YAML that reads well.

>>> text = '''
... streams:
...   s: ps.stream("s", schema="k string, at timestamp", event_time="at", watermark=ps.bounded("1 day"))
... transcripts:
...   - name: a window fires at its end
...     view: s.group_by("k").window(ps.fixed("1 minute")).agg(n=ps.count())
...     script:
...       - add: [a 12:00:10, a 12:00:20]
...       - watermark: 12:01
...         panes: [insert a 12:00..12:01 n=3 on time 0 final]
... '''
>>> [transcript] = parse(text)
>>> transcript.run("kernel")
Traceback (most recent call last):
penstock.errors.TestFailure: 'a window fires at its end': step 2 (watermark 12:01) fired other panes
  expected  insert a 12:00..12:01 n=3 on time 0 final
  got       insert a 12:00..12:01 n=2 on time 0 final

Streams and views are written as Python expressions, which are read and not run (`definition_text`). Functions in them,
such as those of custom windows, are passed by the caller: `load(path, functions={"name": function})`. Whatever a commit
fires or rejects must be written down.
A transcript with `order_free: in epochs` brings the same with the rows of each `add` in any order; one with
`order_free: true` gives the same table also with the rows of neighbouring `add`s in any order and cut into any epochs.
One with `fails: <text>` must fail so.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from difflib import SequenceMatcher
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

from penstock.definition_text import read_definition
from penstock.errors import DefinitionError, PenstockError, TestFailure, unknown
from penstock.model.changes import origins
from penstock.model.commits import Pane, Rejection, TableRow
from penstock.model.time import Instant, instant
from penstock.model.types import is_integer
from penstock.model.view import View
from penstock.testing import DAY, Engine, FiredPane, Result, Step, TestStream, start, text_of

#: Python functions by the names under which definitions use them.
Functions: TypeAlias = Mapping[str, Callable[..., object]]
#: How the rows of an order-free transcript are rearranged: within each epoch, and across neighbouring ones.
WITHIN = ("reversed", "shuffled", "shuffled again")
ACROSS = ("epochs of one", "epochs of two")
#: The rows that a commit refuses, under the names of `Result`.
REFUSED = ("late", "duplicates", "dead")

_FILE = ("streams", "view", "clock", "transcripts")
_TRANSCRIPT = ("name", "streams", "view", "clock", "script", "table", "order_free", "fails")
_EXPECTED = ("panes", *REFUSED)
_STEPS: Mapping[str, tuple[str, ...]] = {
    "add": ("to", "partition", *_EXPECTED),
    "watermark": ("of", *_EXPECTED),
    "clock": _EXPECTED,
    "restart": (),
    "backlog": (),
    "caught up": (),
}


@dataclass(frozen=True)
class Expectation:
    """What one step, or several together, must bring. `panes` is None where they are not compared."""

    panes: tuple[str, ...] | None = ()
    late: tuple[str, ...] = ()
    duplicates: tuple[str, ...] = ()
    dead: tuple[str, ...] = ()


@dataclass(frozen=True)
class Line:
    """Steps of a script that are judged together: mostly one."""

    text: str
    steps: tuple[Step, ...]
    expected: Expectation


@dataclass(frozen=True)
class Transcript:
    """One story: a view, a script, and everything that must come out."""

    name: str
    view: View
    clock: Instant
    lines: tuple[Line, ...]
    table: tuple[str, ...] | None
    order_free: bool | str = False
    fails: str | None = None

    @property
    def orders(self) -> tuple[str, ...]:
        """The orders of rows in which this transcript holds, as far as they change anything."""
        others = (*(WITHIN if self.order_free else ()), *(ACROSS if self.order_free is True else ()))
        written = _steps(self.lines)
        return ("as written", *(order for order in others if _steps(_rearranged(self.lines, order)) != written))

    def run(self, engine: str | Callable[[View], Engine] = "reference", order: str = "as written") -> None:
        """Plays the script on an engine (its name, or what makes one) and raises `TestFailure` where it differs."""
        runner = start(self.view, engine) if isinstance(engine, str) else engine(self.view)
        try:
            self._play(runner, _rearranged(self.lines, order))
        except TestFailure as failure:
            if self.fails is None or self.fails not in str(failure):
                raise
        else:
            if self.fails is not None:
                raise TestFailure(f"'{self.name}' passed, and should fail with '{self.fails}'")

    def _play(self, runner: Engine, lines: tuple[Line, ...]) -> None:
        commits = TestStream(*origins(self.view), clock=self.clock, steps=_steps(lines)).commits()
        for number, line in enumerate(lines, 1):
            panes: list[Pane] = []
            refused: list[Rejection] = []
            for step in line.steps:
                if step.kind in ("backlog", "caught up"):
                    continue
                commit = next(commits)
                if commit is None:
                    runner = runner.restart()
                else:
                    fired, turned_away = runner.commit(commit)
                    panes += fired
                    refused += turned_away
            self._judge(f"step {number} ({line.text})", line.expected, panes, refused)
        if self.table is not None:
            self._same("the table is another one", self.table, _table(self.view, runner.table()))

    def _judge(self, step: str, expected: Expectation, panes: list[Pane], refused: list[Rejection]) -> None:
        result = Result(self.view, tuple(FiredPane(0, pane) for pane in panes), (), tuple(refused))
        if expected.panes is not None:
            self._same(f"{step} fired other panes", expected.panes, [_pane(self.view, pane) for pane in result.panes])
        for kind in REFUSED:
            want, got = _unmatched(getattr(expected, kind), [_refused(row) for row in getattr(result, kind)])
            self._same(f"{step} refused other rows as {kind}", want, got)

    def _same(self, what: str, expected: Sequence[str], got: Sequence[str]) -> None:
        if list(expected) != list(got):
            raise TestFailure("\n".join([f"'{self.name}': {what}", *_difference(expected, got)]))


def load(path: str | Path, functions: Functions | None = None) -> list[Transcript]:
    """The transcripts of a YAML file."""
    file = Path(path)
    try:
        return parse(file.read_text(encoding="utf-8"), functions)
    except DefinitionError as error:
        raise DefinitionError(f"{file.name}: {error.message}", detail=error.detail, hint=error.hint) from error


def parse(text: str, functions: Functions | None = None) -> list[Transcript]:
    """The transcripts of YAML text, whose definitions may name `functions`.

    `streams`, `view` and `clock` at its top hold for all of them.
    """
    document = _only(_yaml(text), _FILE, "the file")
    shared: dict[str, Any] = {name: document[name] for name in document if name in ("view", "clock")}
    streams = document.get("streams") or {}
    transcripts = document.get("transcripts") or []
    return [_transcript({**shared, **entry}, streams, functions or {}) for entry in transcripts]


# From YAML to steps


def _transcript(entry: Mapping[str, Any], shared: Mapping[str, str], functions: Functions) -> Transcript:
    name = str(entry.get("name", "a transcript without a name"))
    try:
        _only(entry, _TRANSCRIPT, "a transcript")
        scope: dict[str, object] = dict(functions)
        for stream, text in {**shared, **(entry.get("streams") or {})}.items():
            scope[stream] = _definition(text, scope)
        view = _definition(entry["view"], scope)
        if not isinstance(view, View):
            raise DefinitionError(f"the view is a {type(view).__name__}", hint="end it with .agg(…)")
        clock = instant(entry.get("clock", DAY), day=DAY)
        table = entry.get("table", ...)
        return Transcript(
            name,
            view,
            clock,
            tuple(_lines(TestStream(*origins(view), clock=clock), entry["script"])),
            None if table is ... else _texts(table),
            _order_free(entry.get("order_free", False)),
            entry.get("fails"),
        )
    except KeyError as missing:
        raise DefinitionError(f"'{name}' has no {missing}") from None
    except PenstockError as error:
        raise DefinitionError(f"'{name}': {error.message}", detail=error.detail, hint=error.hint) from error


def _definition(text: object, scope: Mapping[str, object]) -> object:
    if not isinstance(text, str):
        raise DefinitionError(f"not a definition: {text!r}", hint="write a Python expression")
    try:
        return read_definition(text, scope)
    except PenstockError as error:
        where = f"line {text.line}: " if isinstance(text, _Text) else ""
        raise DefinitionError(f"{where}{error.message}", detail=error.detail, hint=error.hint) from error


def _order_free(value: object) -> bool | str:
    if value is not True and value is not False and value != "in epochs":
        raise DefinitionError(f"order_free: {value}", hint="write true or 'in epochs', or leave it out")
    return value


def _lines(script: TestStream, entries: Sequence[object]) -> Iterator[Line]:
    for entry in entries:
        step: dict[str, Any] = {entry: None} if isinstance(entry, str) else dict(entry)  # type: ignore[call-overload]
        kind = next((word for word in _STEPS if word in step), None)
        if kind is None:
            raise unknown("step", str(next(iter(step), "")), _STEPS)
        _only(step, (kind, *_STEPS[kind]), f"a step '{kind}'")
        script = _then(script, kind, step)
        description = kind if step[kind] is None else f"{kind} {_shown_step(step[kind])}"
        panes, *refused = (_texts(step.get(word)) for word in _EXPECTED)
        yield Line(description, (script.steps[-1],), Expectation(panes, *refused))


def _then(script: TestStream, kind: str, step: Mapping[str, Any]) -> TestStream:
    if kind == "add":
        by_partition = step[kind] if isinstance(step[kind], dict) else {step.get("partition", 0): step[kind]}
        parts = [
            script.add(*(_row(script, step.get("to"), row) for row in rows), to=step.get("to"), partition=partition)
            for partition, rows in by_partition.items()
        ]
        together = replace(parts[0].steps[-1], rows=tuple(row for part in parts for row in part.steps[-1].rows))
        return TestStream(*script.streams, clock=script.start, steps=(*script.steps, together))
    if kind == "watermark" and step[kind] == "the end":
        return script.end(step.get("of"))
    if kind == "watermark":
        return script.watermark(step[kind], step.get("of"))
    if kind == "clock":
        return script.clock(step[kind])
    simple: dict[str, Callable[[], TestStream]] = {"restart": script.restart, "backlog": script.backlog}
    return simple.get(kind, script.caught_up)()


def _row(script: TestStream, to: str | None, row: object) -> Sequence[object]:
    """A row's values: a list, or text with a word for each column."""
    if not isinstance(row, (str, int, float)):
        return row  # type: ignore[return-value]
    schema = next((stream for stream in script.streams if to in (None, stream.name)), script.streams[0]).schema
    words = str(row).split()
    if len(words) > len(schema.names):
        raise DefinitionError(
            f"the row '{row}' has {len(words)} words for {len(schema.names)} columns",
            hint="write a value that has spaces as part of a list: [a, two words]",
        )
    return [_value(word, kind) for word, (_, kind) in zip(words, schema, strict=False)]


def _value(word: str, kind: str) -> object:
    if word == "null":
        return None
    if is_integer(kind):
        return int(word)
    if kind in ("float", "double"):
        return float(word)
    if kind == "boolean":
        return word == "true"
    return Decimal(word) if kind.startswith("decimal") else word


def _texts(value: object) -> tuple[str, ...]:
    lines = [value] if isinstance(value, str) else value or []
    return tuple(_plain(" ".join(map(text_of, line)) if isinstance(line, list) else str(line)) for line in lines)  # type: ignore[attr-defined]


def _shown_step(value: object) -> str:
    text = ", ".join(_texts(value)) if isinstance(value, list) else _plain(str(value))
    return text if len(text) <= 60 else f"{text[:57]}…"


def _only(value: object, known: Sequence[str], where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DefinitionError(f"{where} is not a mapping: {value!r}")
    for name in value:
        if name not in known:
            raise unknown(f"entry of {where}", str(name), known)
    return value


# From results to text


def _plain(text: str) -> str:
    """The text with single spaces, and times without ':00' seconds: both sides are compared so."""
    return re.sub(r"(?<![\d:])(\d\d:\d\d):00(?!\.?\d|:)", r"\1", " ".join(text.split()))


def _pane(view: View, pane: Mapping[str, object]) -> str:
    final = ["final"] if pane["final"] else []
    return _plain(" ".join([str(pane["kind"]), _shown(view, pane), str(pane["timing"]), str(pane["index"]), *final]))


def _table(view: View, rows: list[TableRow]) -> list[str]:
    table_rows = Result(view, (), tuple(rows), ()).table
    return [_plain(" ".join([_shown(view, row), *(["final"] if row["final"] else [])])) for row in table_rows]


def _shown(view: View, row: Mapping[str, object]) -> str:
    first, last = row["window_start"], row["window_end"]
    return " ".join(
        [
            *(text_of(row[key]) for key, _ in view.keys),
            "all time" if first is None else f"{text_of(first)}..{text_of(last)}",
            *(f"{name}={_number(row[name])}" for name in view.values),
        ]
    )


def _number(value: object) -> str:
    """A value of an aggregate; floating-point numbers to 12 digits, since their last ones depend on the order."""
    return text_of(float(f"{value:.12g}") if isinstance(value, float) else value)


def _refused(row: Mapping[str, object]) -> str:
    values = [text_of(value) for column, value in row.items() if column != "reason"]
    return f"{_plain(' '.join(values))} because {row['reason']}"


def _unmatched(expected: Sequence[str], got: Sequence[str]) -> tuple[list[str], list[str]]:
    """What is left when each expected row has found its own. A reason may be left out, or be a part of the whole."""
    missing, rest = [], list(got)
    for text in expected:
        row, _, reason = text.partition(" because ")
        matches = [other for other in rest if other.startswith(f"{row} because ") and reason in other]
        if matches:
            rest.remove(matches[0])
        else:
            missing.append(text)
    return missing, rest


def _difference(expected: Sequence[str], got: Sequence[str]) -> Iterator[str]:
    for _, a, b, c, d in SequenceMatcher(a=expected, b=got, autojunk=False).get_opcodes():
        if list(expected[a:b]) == list(got[c:d]):
            yield from (f"  both      {line}" for line in expected[a:b])
        else:
            yield from (f"  expected  {line}" for line in expected[a:b])
            yield from (f"  got       {line}" for line in got[c:d])


# The same rows in another order

_Mix: TypeAlias = Callable[[list[Any]], list[Any]]


def _steps(lines: tuple[Line, ...]) -> tuple[Step, ...]:
    return tuple(step for line in lines for step in line.steps)


def _rearranged(lines: tuple[Line, ...], order: str) -> tuple[Line, ...]:
    if order == "as written":
        return lines
    if order.startswith("epochs of"):
        return tuple(_recut(lines, 1 if order.endswith("one") else 2))
    mix: _Mix = (lambda rows: rows[::-1]) if order == "reversed" else _shuffle(order)
    return tuple(
        replace(line, steps=tuple(replace(step, rows=tuple(mix(list(step.rows)))) for step in line.steps))
        for line in lines
    )


def _recut(lines: tuple[Line, ...], size: int) -> Iterator[Line]:
    """Neighbouring epochs as one run of rows, shuffled and cut again. Panes are compared only if no epoch fires any."""
    quiet = all(not line.expected.panes for line in lines if line.steps[0].kind == "add")
    for adds, run in groupby(lines, lambda line: line.steps[0].kind == "add"):
        several = list(run)
        if not adds:
            for line in several:
                yield line if quiet else replace(line, expected=replace(line.expected, panes=None))
            continue
        rows = _shuffle("again")([(line.steps[0].stream, row) for line in several for row in line.steps[0].rows])
        steps = [
            Step("add", stream, tuple(row for _, row in events[i : i + size]))
            for stream, same in groupby(rows, lambda pair: pair[0])
            for events in [list(same)]
            for i in range(0, len(events), size)
        ]
        refused = [tuple(text for line in several for text in getattr(line.expected, kind)) for kind in REFUSED]
        description = ", ".join(line.text for line in several)
        yield Line(f"{description}, in epochs of {size}", tuple(steps), Expectation(() if quiet else None, *refused))


def _shuffle(seed: str) -> _Mix:
    return lambda rows: random.Random(seed).sample(rows, len(rows))


# YAML


class _Text(str):
    """Text of a YAML file, and the line on which it begins."""

    __slots__ = ("line",)
    line: int


def _yaml(text: str) -> object:
    """The document, by YAML 1.2's rules: 12:00:10 is text, and so are dates, yes and no."""
    try:
        import yaml
    except ImportError:
        raise PenstockError("transcripts are YAML, and PyYAML is missing", hint="pip install PyYAML") from None

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            names = [key.value for key, _ in node.value]
            for name in names:
                if names.count(name) > 1:
                    raise DefinitionError(f"'{name}' appears twice in one entry{node.start_mark}")
            return super().construct_mapping(node, deep=deep)

    def text_at(loader: Any, node: Any) -> _Text:
        text = _Text(loader.construct_scalar(node))
        text.line = node.start_mark.line + 1
        return text

    Loader.add_constructor("tag:yaml.org,2002:str", text_at)
    Loader.yaml_implicit_resolvers = {}
    for kind, pattern in (
        ("null", r"~|null|"),
        ("bool", r"true|false"),
        ("int", r"[-+]?\d+"),
        ("float", r"[-+]?(\d+\.\d*|\.\d+|\d+)([eE][-+]?\d+)?|[-+]?\.inf|\.nan"),
    ):
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(f"^(?:{pattern})$"), None)
    try:
        return yaml.load(text, Loader)
    except yaml.YAMLError as error:
        raise DefinitionError("not YAML", detail=str(error)) from None
