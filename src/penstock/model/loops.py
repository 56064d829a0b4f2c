"""Loops: iteration inside an epoch. Code by key that gets messages, changes its state and sends messages to other keys.

    class Reach(ps.Loop):
        output = "place string, hops bigint"

        def enter(self, event):
            yield event.start, ("road", event.end)

        def step(self, key, state, messages, round):
            ...
            return state, [(other, message), ...]

        def show(self, key, state):
            return key, state["hops"]

Round 0 has the messages that events enter with, round 1 what those have sent, and so on until nothing is sent any more.
States are kept from epoch to epoch; only keys that get a message are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Final, TypeAlias

from penstock.errors import DefinitionError
from penstock.model.aggregates import last
from penstock.model.by_kernel import check_by_kernel
from penstock.model.naming import function_name
from penstock.model.stream import Flow
from penstock.model.triggers import each
from penstock.model.types import Schema
from penstock.model.view import View
from penstock.model.windows import global_window

#: The column that tells what is shown (+1) from what is taken back (-1) in the stream that a loop gives.
SIGN: Final = "sign"
#: The most rounds of a user's own loop; the epoch fails if there are more.
ROUNDS: Final = 1_000


@dataclass(frozen=True)
class Round:
    """What is known after a round: its number, how many messages it has sent, how many states it has changed."""

    number: int
    messages: int
    changed: int


Until: TypeAlias = Callable[[Round], bool]
#: A frame and an expression of Polars, without which the model does.
Frame: TypeAlias = Any
Expression: TypeAlias = Any


class Loop:
    """The base class of loops in Python, called key by key. `output` is the schema of the rows that a loop shows."""

    output: ClassVar[str]
    max_rounds: ClassVar[int] = ROUNDS

    def enter(self, event: Any) -> Iterable[tuple[Any, Any]]:
        """The messages that an event enters the loop with: pairs of a key and a message."""
        raise NotImplementedError

    def step(self, key: Any, state: Any, messages: list[Any], round: int) -> tuple[Any, Iterable[tuple[Any, Any]]]:
        """The messages of a round for a key: its new state (None: forgotten), and messages to other keys.

        Messages come in the order of their senders' keys; those of round 0 in the order of the log.
        """
        raise NotImplementedError

    def show(self, key: Any, state: Any) -> Any:
        """The row that a key shows, a list of several, or None. What changed in an epoch is the loop's stream."""
        return None


class FrameLoop:
    """The same on columns, with Polars: all keys of a round at once.

    `key`, `state` and `message` are schemas. Rows of a round may be cut into parts by key, so the order of messages
    must not matter, nor what other keys there are.
    """

    output: str
    key: str
    state: str
    message: str
    max_rounds: int = 1_000_000

    def of(self, events: Schema) -> FrameLoop:
        """The body for events with these columns: one that takes its types from them says so here."""
        return self

    def refuse(self, events: Frame) -> Expression:
        """Why an event is a dead letter, null where it is none."""
        return None

    def enter(self, events: Frame) -> Frame:
        """The messages that events enter with: the columns of `key` and of `message`."""
        raise NotImplementedError

    def step(self, states: Frame, messages: Frame, round: int) -> tuple[Frame, Frame]:
        """The states that change, and the messages that are sent.

        `states` has a row for each key that got a message; of a new key, all columns of `state` are null.
        """
        raise NotImplementedError

    def show(self, states: Frame) -> Frame:
        """The rows that states show: the columns of `output`."""
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class Iteration:
    """A loop over a flow. `until` ends it before all is quiet: what is under way then is given up."""

    input: Flow
    body: Loop | FrameLoop
    max_rounds: int
    until: Until | None = None

    def __post_init__(self) -> None:
        _check_flow(self.input)
        if isinstance(self.max_rounds, bool) or not isinstance(self.max_rounds, int) or self.max_rounds < 1:
            raise DefinitionError(f"max_rounds={self.max_rounds!r}: a loop has at least one round")
        if self.until is not None and not callable(self.until):
            raise DefinitionError(
                f"until={self.until!r} is not a function", hint="set until=lambda round: round.number == 9"
            )
        _ = self.schema

    @property
    def event(self) -> Schema:
        """The columns of an event."""
        assert self.input.schema is not None
        return self.input.schema

    @cached_property
    def view(self) -> View:
        """What comes to the loop, as the model has it: every column as an input."""
        columns = tuple((f"c{number}", last(f"`{name}`")) for number, name in enumerate(self.event.names))
        return View(self.input, (), global_window(), columns, each())

    @cached_property
    def shown(self) -> Schema:
        """The columns of a row that the loop shows."""
        output = getattr(self.body, "output", None)
        if not isinstance(output, str):
            raise DefinitionError(
                f"the loop {self.name} does not declare what it shows",
                hint="output = 'vertex string, component string'",
            )
        return Schema.parse(output)

    @cached_property
    def schema(self) -> Schema:
        """The columns of the stream that the loop gives."""
        if SIGN in (name.lower() for name in self.shown.names):
            raise DefinitionError(f"the loop {self.name} shows a column '{SIGN}', which its stream has anyway")
        return Schema((*self.shown, (SIGN, "int")))

    @property
    def name(self) -> str:
        return type(self.body).__name__

    def __getstate__(self) -> dict[str, Any]:
        """What travels to the tasks: what it is made of, and not what was made of it."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __repr__(self) -> str:
        until = f", until={function_name(self.until)}" if self.until is not None else ""
        return f"{self.input!r}.iterate({self.name}, max_rounds={self.max_rounds}{until})"


def iteration(
    flow: Flow, body: Loop | FrameLoop | type[Loop], max_rounds: int | None = None, until: Until | None = None
) -> Iteration:
    """A loop over a flow; its body is a class or what was made of one."""
    loop = body() if isinstance(body, type) and issubclass(body, (Loop, FrameLoop)) else body
    if not isinstance(loop, (Loop, FrameLoop)):
        raise DefinitionError(
            f"not the body of a loop: {body!r}",
            hint="derive a class from ps.Loop, or take ps.connected_components('a', 'b')",
        )
    for needed in ("enter", "step"):
        base = Loop if isinstance(loop, Loop) else FrameLoop
        if getattr(type(loop), needed) is getattr(base, needed):
            raise DefinitionError(f"the loop {type(loop).__name__} has no method {needed}")
    _check_flow(flow)
    if isinstance(loop, FrameLoop):
        assert flow.schema is not None
        loop = loop.of(flow.schema)
    return Iteration(flow, loop, loop.max_rounds if max_rounds is None else max_rounds, until)


def _check_flow(flow: Flow) -> None:
    """Refuses what a loop cannot read: its events come from the history, through steps of the kernel."""
    for source in flow.sources:
        if source.sign is not None:
            raise DefinitionError(
                f"a loop takes no retractions, and the stream '{source.name}' has a sign",
                detail="the effects of one event on other keys cannot be separated from those of others",
                hint="leave out sign=…; the column then comes to the loop, and its code decides",
            )
    check_by_kernel(
        flow,
        lambda step: DefinitionError(
            f"{step.label} comes before a loop, which has neither DataFrames nor tables",
            hint="do it in the body of the loop, or with select and where",
        ),
        lambda text: DefinitionError(
            f"'{text}' comes before a loop, and only Spark can compute it", hint="compute it in the body of the loop"
        ),
        DefinitionError("the columns that come to the loop are not known", hint="select them with casts"),
    )
