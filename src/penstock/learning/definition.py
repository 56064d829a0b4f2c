"""A model over a flow: what comes to it, which rows it learns from, and the stream of predictions that this makes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Final

import numpy as np

from penstock.errors import DefinitionError
from penstock.learning.model import Model
from penstock.learning.weights import Array
from penstock.model.aggregates import last
from penstock.model.by_kernel import check_by_kernel
from penstock.model.expressions import bind
from penstock.model.naming import valid_name
from penstock.model.stream import Flow, Select
from penstock.model.triggers import each
from penstock.model.types import INTEGERS, Schema
from penstock.model.view import View
from penstock.model.windows import global_window

#: The column that says which version of the model predicted a row.
VERSION: Final = "version"
#: Whether a row is learned from, where a condition says so.
LEARNS: Final = "__learns"


@dataclass(frozen=True, repr=False)
class Learning:
    """A model over a flow. Rows are learned from where `train_when` holds, in `partitions`: by the value of a column.

    Without `by` it goes by their places in the log. `give` are the columns of an event that come out with its
    prediction. The last `versions` are kept, and each `every`-th.
    """

    input: Flow
    model: Model
    give: tuple[str, ...]
    by: str | None = None
    train_when: str | None = None
    partitions: int = 8
    versions: int = 10
    every: int = 1000

    def __post_init__(self) -> None:
        if self.train_when is not None:
            _check_train_when(self.train_when, self.event)
        _check_keyed(self)
        for number, what in ((self.partitions, "partition"), (self.versions, "version"), (self.every, "version")):
            if number < 1:
                raise DefinitionError(f"{self.who} has at least one {what}, and not {number}")
        _ = self.schema, self.initial

    @property
    def who(self) -> str:
        return f"the model {type(self.model).__name__}"

    @property
    def event(self) -> Schema:
        """The columns of the rows that the model gets."""
        assert self.input.schema is not None
        return self.input.schema

    @property
    def keyed(self) -> Mapping[str, str]:
        return self.model.keyed

    @cached_property
    def flow(self) -> Flow:
        """What is read: the rows, and whether each is learned from."""
        if self.train_when is None:
            return self.input
        return Select(self.input, (*((name, f"`{name}`") for name in self.event.names), (LEARNS, self.train_when)))

    @cached_property
    def view(self) -> View:
        """The flow as the model package has it: every column as an input."""
        assert self.flow.schema is not None
        columns = tuple((f"c{number}", last(f"`{name}`")) for number, name in enumerate(self.flow.schema.names))
        return View(self.flow, (), global_window(), columns, each())

    @cached_property
    def output(self) -> Schema:
        """The columns that the model predicts."""
        return Schema.parse(self.model.output)

    @cached_property
    def schema(self) -> Schema:
        """The columns of the stream that comes out."""
        columns = [(name, self.event.type_of(name)) for name in self.give]
        columns += [*self.output, (VERSION, "bigint")]
        for name, _ in columns:
            if sum(name == other for other, _ in columns) > 1:
                raise DefinitionError(
                    f"{self.who} would give two columns '{name}'",
                    hint="leave it out of give, or give the output another name",
                )
        return Schema(tuple(columns))

    @cached_property
    def initial(self) -> dict[str, Array]:
        """The arrays that it begins with."""
        try:
            arrays = {str(name): np.array(array) for name, array in dict(self.model.initial()).items()}
        except Exception as error:
            raise DefinitionError(f"{self.who} cannot be initialized: {type(error).__name__}: {error}") from error
        for name, array in arrays.items():
            if name in self.keyed or array.dtype.kind not in "fiub":
                raise DefinitionError(
                    f"{self.who}: initial() gives '{name}', which is a keyed part or not an array of numbers",
                    hint="initial() gives NumPy arrays of numbers; fresh() gives the initial values of keyed parts",
                )
        return arrays

    def __getstate__(self) -> dict[str, Any]:
        """What travels to the tasks: what it is made of, and not what was made of it."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __repr__(self) -> str:
        shown = repr(self.model) if type(self.model).__repr__ is not object.__repr__ else type(self.model).__name__
        return f"{self.input!r}.learn({shown})"


def learning_of(
    flow: Flow, model: Model | type[Model], give: str | Sequence[str] = (), by: str | None = None, **more: Any
) -> Learning:
    """A model over a flow: a class that takes no parameters, or an object of one."""
    if inspect.isclass(model) and issubclass(model, Model):
        try:
            model = model()
        except TypeError as error:
            raise DefinitionError(f"the model {model!r} needs parameters: {error}", hint="give an object") from None
    if not isinstance(model, Model):
        raise DefinitionError(f"not a model: {model!r}", hint="give a class derived from ps.Model, or an object of one")
    for method in ("predict", "learn"):
        if getattr(type(model), method) is getattr(Model, method):
            raise DefinitionError(f"the model {type(model).__name__} has no {method}(self, model, rows)")
    _check_flow(flow)
    assert flow.schema is not None
    columns = [flow.schema.find(name) for name in ((give,) if isinstance(give, str) else give)]
    return Learning(flow, model, tuple(columns), None if by is None else flow.schema.find(by), **more)


def _check_keyed(learning: Learning) -> None:
    for part, column in learning.keyed.items():
        kind = learning.event.type_of(column)
        if kind != "string" and kind not in INTEGERS:
            raise DefinitionError(
                f"{learning.who}: the column '{column}' of the keyed part '{part}' is a {kind}",
                hint="keys are texts or whole numbers: cast it in a select",
            )
        if not valid_name(part):
            raise DefinitionError(f"'{part}' cannot be a keyed part's name", hint="use letters, digits and underscores")


def _check_flow(flow: Flow) -> None:
    """Refuses what a model cannot read: its rows come from the history, through steps of the kernel."""
    if not isinstance(flow, Flow):
        raise DefinitionError(f"a model learns from a stream, and not from {flow!r}")
    for source in flow.sources:
        if source.sign is not None:
            raise DefinitionError(
                f"a model takes no retractions, and the stream '{source.name}' has a sign",
                hint="leave out sign=…; the column then comes to the model",
            )
    check_by_kernel(
        flow,
        lambda step: DefinitionError(
            f"{step.label} comes before a model, which reads the history",
            hint="do it in the model, or with select and where",
        ),
        _text_refused,
        DefinitionError("the columns that come to the model are not known", hint="select them with casts"),
    )


def _check_train_when(text: str, event: Schema) -> None:
    if bind(text, event).outside is not None:
        raise _text_refused(text)


def _text_refused(text: str) -> DefinitionError:
    return DefinitionError(
        f"'{text}' comes before a model, and only Spark can compute it", hint="compute it in the model"
    )
