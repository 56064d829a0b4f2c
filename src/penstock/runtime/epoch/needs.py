"""Which columns of a stream its feeds need: the plan before the epoch's function is pruned to them."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.model.explode import Explode
from penstock.model.expressions import bind, parse
from penstock.model.row_steps import PythonStep
from penstock.model.stream import Branch, Select, Stream, Transform, branches
from penstock.model.table import TableJoin
from penstock.model.view import View
from penstock.model.watermarks import Punctuated
from penstock.runtime.epoch.feeds import Feed, Lowered


def needed(stream: Stream, lowered: Lowered) -> tuple[str, ...]:
    """The columns that the kernel, Catalyst and DataFrame code read, in the order of the stream's schema."""
    used: set[str] = set()
    for feed in lowered.of(stream.name):
        used |= _before_code(feed, stream) if feed.prefix else _by_kernel(feed, lowered)
    # A frame without columns has no rows: so a view that only counts reads the first column.
    return tuple(name for name in stream.schema.names if name in used) or stream.schema.names[:1]


def _before_code(feed: Feed, stream: Stream) -> set[str]:
    """What Spark reads up to DataFrame code, which may look at all it gets."""
    texts: list[str] = []
    for step in feed.prefix:
        if isinstance(step, Transform | TableJoin | PythonStep):
            return set(stream.schema.names)
        texts += step.texts
        if isinstance(step, Select):
            break
    return {stream.schema.find(name) for text in texts for name in parse(text).columns}


def _by_kernel(feed: Feed, lowered: Lowered) -> set[str]:
    """What the kernel reads of a stream itself; for Catalyst's columns, what these are made of."""
    texts = [text for text in (feed.stream.event_time, feed.stream.id, feed.stream.sign) if text is not None]
    if isinstance(feed.stream.watermark, Punctuated):
        texts.append(feed.stream.watermark.mark)
    for view in [*lowered.views.values(), *(output.view for output in lowered.outputs.values())]:
        for branch in branches(view.input):
            if branch.source.name == feed.name and any(isinstance(step, TableJoin) for step in branch.steps):
                # All: if the table grows, Spark will join it, without another plan before the epoch's function.
                return set(feed.source.schema.names)
            if branch.source.name == feed.name:
                texts += _read(branch, view)
    names = {column for text in texts for column in bind(text, feed.stream.schema).columns}
    read = names - feed.columns.keys()
    for name in names & feed.columns.keys():
        read |= {feed.schema.find(column) for column in parse(feed.columns[name]).columns}
    return read


def _read(branch: Branch, view: View) -> list[str]:
    """The expressions over the stream's own columns, up to the first step that makes others."""
    texts: list[str] = []
    made: set[str] = set()
    for step in branch.steps:
        if isinstance(step, PythonStep):  # its function may look at all that it gets
            return texts + [f"`{name}`" for name in step.known().names if name not in made]
        texts += _without(step.texts, made)
        if isinstance(step, Select):
            return texts
        made |= {*step.made} if isinstance(step, Explode) else set()
    return texts + _without(view.expressions, made)


def _without(texts: Iterable[str], made: set[str]) -> list[str]:
    """Texts over the stream's own columns: the columns that are read, where others were added to them."""
    if not made:
        return list(texts)
    added = {name.lower() for name in made}
    return [f"`{name}`" for text in texts for name in sorted(parse(text).columns) if name.lower() not in added]
