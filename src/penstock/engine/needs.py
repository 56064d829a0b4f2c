"""Which columns of a stream its views need: the plan before the epoch's function is pruned to them."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.errors import DefinitionError
from penstock.model.expressions import bind
from penstock.model.stream import Branch, Select, Stream, Transform, Where, WithTime, branches
from penstock.model.view import View
from penstock.model.watermarks import Punctuated


def needed(stream: Stream, views: Iterable[View]) -> tuple[str, ...]:
    """The columns that the stream itself and its views read, in the order of its schema."""
    texts = [text for text in (stream.event_time, stream.id, stream.sign) if text is not None]
    if isinstance(stream.watermark, Punctuated):
        texts.append(stream.watermark.mark)
    for view in views:
        for branch in branches(view.input):
            if branch.source.name == stream.name:
                texts += _read(branch, view)
    used = {column for text in texts for column in bind(text, stream.schema).columns}
    return tuple(name for name in stream.schema.names if name in used)


def _read(branch: Branch, view: View) -> list[str]:
    """The expressions over the stream's own columns, up to the first step that makes others."""
    texts: list[str] = []
    for step in branch.steps:
        if isinstance(step, Select):
            return texts + [text for _, text in step.columns]
        if isinstance(step, Where):
            texts.append(step.condition)
        elif isinstance(step, WithTime):
            texts.append(step.expression)
    return texts + list(view.expressions)


def check_runnable(name: str, view: View) -> None:
    """Refuses what this engine cannot evaluate yet, by name."""
    for branch in branches(view.input):
        for step in branch.steps:
            if isinstance(step, Transform):
                raise DefinitionError(
                    f"the view «{name}» has DataFrame code, which the engine does not run yet: {step.label}"
                )
    for text in view.expressions:
        outside = view.bound(text).outside
        if outside is not None:
            raise DefinitionError(f"the view «{name}»: «{text}» cannot be evaluated yet: {outside}")
