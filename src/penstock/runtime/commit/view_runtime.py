"""A view as an engine runs it, and a generation of one that is being computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from penstock.kernel.plan import Plan
from penstock.model.time import Instant
from penstock.model.watermarks import ViewTime


@dataclass
class ViewRuntime:
    """A view as an engine runs it: its plan, which follows what other views need, and its time."""

    plan: Plan
    time: ViewTime


@dataclass(frozen=True)
class GenerationInput:
    """What one commit steps a pending generation with: its deltas, if it has some, and its time."""

    deltas: pl.DataFrame | None
    before: Instant
    after: Instant
    now: Instant


@dataclass(frozen=True)
class PendingGeneration:
    """A generation that is being computed. `put` receives what each commit would step it with.

    `of` names the view whose deltas are its own too. Another definition takes part in the epochs by itself.
    """

    view: ViewRuntime
    put: Callable[[GenerationInput], None]
    of: str | None = None
