"""The engines that run a view commit by commit: the reference, the kernel, and Spark."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Protocol

from penstock.errors import unknown
from penstock.model.chain import chained, far_sources
from penstock.model.commits import Commit, Pane, Rejection, TableRow
from penstock.model.reference import Reference
from penstock.model.view import View
from penstock.testing.result import FiredPane, Result
from penstock.testing.script import TestStream


class Engine(Protocol):
    """What runs a view, commit by commit."""

    def commit(self, commit: Commit) -> tuple[list[Pane], list[Rejection]]: ...
    def table(self) -> list[TableRow]: ...
    def restart(self) -> Engine: ...


def start(view: View, engine: str, fed: Collection[str] = ()) -> Engine:
    """A fresh engine for a view. `fed` are streams that a script feeds directly, whatever gives them otherwise."""
    if engine == "kernel":
        from penstock.kernel.local import LocalKernel

        return chained(view, LocalKernel, fed)
    if engine == "reference":
        return chained(view, Reference, fed)
    if engine in ("engine", "spark"):
        from penstock.runtime.script import OnEngine, OnSpark

        return OnSpark(view, fed=fed) if engine == "spark" else OnEngine(view, fed=fed)
    raise unknown("engine", engine, ["kernel", "reference", "engine", "spark"])


def replay(view: View, script: TestStream, runner: Engine) -> Result:
    """Runs a script on an engine."""
    fired: list[FiredPane] = []
    refused: list[Rejection] = []
    names = far_sources((view.input,), script.fed).keys()
    number = 0
    for commit in script.commits():
        if commit is None:
            runner = runner.restart()
            continue
        number += 1
        own_events = tuple(event for event in commit.events if event.stream in names)
        panes, turned_away = runner.commit(replace(commit, events=own_events))
        fired += [FiredPane(number, pane) for pane in panes]
        refused += turned_away
    rows = tuple(runner.table())
    return Result(view, tuple(fired), rows, tuple(refused), getattr(runner, "lowered", None))
