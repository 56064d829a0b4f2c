"""Runs a view over a script: on the kernel, on the reference, or on Spark."""

from __future__ import annotations

from typing import Literal

from penstock.errors import DefinitionError
from penstock.model.changes import origins
from penstock.model.join import join_behind
from penstock.model.stream import Stream
from penstock.model.view import View
from penstock.testing.engines import replay, start
from penstock.testing.result import Result
from penstock.testing.script import TestStream


def run(view: View, script: TestStream, engine: Literal["reference", "kernel", "spark"] = "kernel") -> Result:
    """Runs a view over a script: on the kernel, on the reference interpreter (the specification), or on Spark."""
    script = _with_joined(view, script)
    missing = {s.name for s in origins(view)} - {s.name for s in script.streams}
    if missing:
        raise DefinitionError(
            f"the script lacks the stream «{min(missing)}»", hint="name it: TestStream(first, second)"
        )
    return replay(view, script, start(view, engine))


def _with_joined(view: View, script: TestStream) -> TestStream:
    """The script with the joins of its streams that a view reads."""
    found = {stream.name: stream for stream in script.streams}

    def take(stream: Stream) -> None:
        join = join_behind(stream)
        if join is not None and stream.name not in found:
            for source in join.inputs:
                take(source)
            if all(source.name in found for source in join.inputs):
                found[stream.name] = stream

    for stream in origins(view):
        take(stream)
    return TestStream(*found.values(), clock=script.start, steps=script.steps)
