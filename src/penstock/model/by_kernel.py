"""Flows that the kernel alone can follow, from the history: what streams made from others may read."""

from __future__ import annotations

from collections.abc import Callable

from penstock.errors import DefinitionError
from penstock.model.expressions import bind
from penstock.model.stream import Flow, Transform, branches
from penstock.model.table import TableJoin
from penstock.model.types import Schema


def check_by_kernel(
    flow: Flow,
    step_refused: Callable[[Transform | TableJoin], DefinitionError],
    text_refused: Callable[[str], DefinitionError],
    columns_unknown: DefinitionError,
) -> None:
    """Refuses steps and expressions that only Spark can do, and columns of which nobody knows the types.

    The caller says how: what a user can do instead depends on what reads the flow.
    """
    for branch in branches(flow):
        schema: Schema | None = branch.source.schema
        for step in branch.steps:
            if isinstance(step, (Transform, TableJoin)):
                raise step_refused(step)
            for text in step.texts:
                if schema is not None and bind(text, schema).outside is not None:
                    raise text_refused(text)
            schema = step.schema
        if schema is None:
            raise columns_unknown
