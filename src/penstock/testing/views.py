"""Runs a view or a stream over a script: on the kernel, on the reference, or on Spark."""

from __future__ import annotations

from typing import Literal, TypeAlias, overload

from penstock.errors import DefinitionError
from penstock.model.chain import far_sources
from penstock.model.stream import Flow
from penstock.model.view import Grouped, View
from penstock.testing.engines import replay, start
from penstock.testing.result import Result, StreamResult
from penstock.testing.script import TestStream, check_script
from penstock.testing.streams import run_stream

EngineName: TypeAlias = Literal["reference", "kernel", "engine", "spark"]


@overload
def run(view: View, script: TestStream, engine: EngineName | None = None) -> Result: ...
@overload
def run(view: Flow, script: TestStream, engine: EngineName | None = None) -> StreamResult: ...
def run(view: View | Flow, script: TestStream, engine: EngineName | None = None) -> Result | StreamResult:
    """Runs a view over a script, with all views and operators that it reads; or a stream, whose rows it gives.

    A view runs on the kernel, on the reference interpreter (the specification), on the engine without Spark, or on
    Spark; a stream on the reference. A script that adds events to what an operator gives feeds the view directly.
    """
    if isinstance(view, Grouped):
        raise DefinitionError("this is not a view yet: it has keys and no aggregates", hint="end it with .agg(…)")
    if not isinstance(view, (View, Flow)):
        raise DefinitionError(f"not a view or a stream: {view!r}", hint="give what .agg(…) or app.stream(…) returned")
    check_script(script)
    fed, flow = script.fed, view.input if isinstance(view, View) else view
    missing = far_sources((flow,), fed).keys() - {stream.name for stream in script.streams}
    if missing:
        raise DefinitionError(
            f"the script lacks the stream '{min(missing)}'", hint="name it: TestStream(first, second)"
        )
    if isinstance(view, View):
        return replay(view, script, start(view, engine or "kernel", fed))
    if engine not in (None, "reference"):
        raise DefinitionError(f"a stream runs on the reference, not on {engine!r}", hint="leave out engine=…")
    return run_stream(view, script)
