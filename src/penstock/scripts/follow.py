"""A view at work in a script: it takes the commits as they are added, and does not start over for every question."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from penstock.model.chain import far_sources
from penstock.model.commits import Rejection
from penstock.model.view import View
from penstock.testing import Engine, FiredPane, Result, TestStream, replay


class Following:
    """An engine that has taken the first commits of a script."""

    def __init__(self, view: View, engine: Engine) -> None:
        self.view = view
        self._engine = engine
        self._taken = self._commits = 0
        self._fired: list[FiredPane] = []
        self._refused: list[Rejection] = []

    def follow(self, script: TestStream) -> Result:
        """Takes the commits that are new in a script; what the view did with all of them."""
        names = far_sources((self.view.input,)).keys()
        for commit in islice(script.commits(), self._taken, None):
            self._taken += 1
            if commit is None:
                self._engine = self._engine.restart()
                continue
            self._commits += 1
            own_events = tuple(event for event in commit.events if event.stream in names)
            panes, refused = self._engine.commit(replace(commit, events=own_events))
            self._fired += [FiredPane(self._commits, pane) for pane in panes]
            self._refused += refused
        now = replay(self.view, TestStream(*script.streams), self._engine)  # no commits: the table as it is
        return replace(now, fired=tuple(self._fired), refused=tuple(self._refused))
