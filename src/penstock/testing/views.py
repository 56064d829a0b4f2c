"""Runs a view over a script: on the kernel, on the reference, or on Spark."""

from __future__ import annotations

from typing import Literal

from penstock.errors import DefinitionError
from penstock.model.chain import far_sources
from penstock.model.view import View
from penstock.testing.engines import replay, start
from penstock.testing.result import Result
from penstock.testing.script import TestStream


def run(view: View, script: TestStream, engine: Literal["reference", "kernel", "engine", "spark"] = "kernel") -> Result:
    """Runs a view over a script, with all views and operators that it reads.

    On the kernel, on the reference interpreter (the specification), on the engine without Spark, or on Spark. A script
    that adds events to what an operator gives feeds the view directly.
    """
    fed = script.fed
    missing = far_sources((view.input,), fed).keys() - {stream.name for stream in script.streams}
    if missing:
        raise DefinitionError(
            f"the script lacks the stream '{min(missing)}'", hint="name it: TestStream(first, second)"
        )
    return replay(view, script, start(view, engine, fed))
