"""What runs without Spark: a view whose every expression is in the kernel's subset, and no DataFrame code."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.errors import DefinitionError
from penstock.model.expressions import bind
from penstock.model.stream import Branch, Transform, branches
from penstock.model.types import Schema
from penstock.model.view import View
from penstock.model.watermarks import Punctuated

_HINT = "run it with engine='spark'"


def check_alone(view: View) -> None:
    """Refuses a view that only Spark can evaluate, and says which part of it."""
    for branch in branches(view.input):
        for step in branch.steps:
            if isinstance(step, Transform):
                raise DefinitionError(f"{step.label} is DataFrame code, which needs Spark", hint=_HINT)
        for text, schema in _expressions(branch, view):
            outside = bind(text, schema).outside
            if outside:
                raise DefinitionError(f"'{text}' needs Spark: {outside}", hint=_HINT)


def _expressions(branch: Branch, view: View) -> Iterator[tuple[str, Schema]]:
    """All that is evaluated on the way of an event, with the columns that it is about."""
    source = branch.source
    own = [source.event_time, source.id, source.sign]
    own += [source.watermark.mark] if isinstance(source.watermark, Punctuated) else []
    yield from ((text, source.schema) for text in own if text is not None)
    schema: Schema | None = source.schema
    for step in branch.steps:
        assert schema is not None  # else an earlier step was refused
        for text in step.texts:
            yield text, schema
        schema = step.schema
    yield from ((text, view.input_schema) for text in view.expressions)
