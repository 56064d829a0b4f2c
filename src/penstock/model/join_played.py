"""What a join of streams did with a script of commits, as tests look at it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from penstock.model.as_of_reference import reference_of
from penstock.model.commits import Commit, Rejection
from penstock.model.join import StreamJoin


@dataclass
class JoinRun:
    """The rows that came out, as tuples in the order of the columns, their signs, and the events that were rejected."""

    join: StreamJoin
    rows: list[tuple[object, ...]] = field(default_factory=list)
    signs: list[int] = field(default_factory=list)
    refused: list[Rejection] = field(default_factory=list)

    @property
    def late(self) -> list[Rejection]:
        return [one for one in self.refused if one.kind == "late"]

    @property
    def dead(self) -> list[Rejection]:
        return [one for one in self.refused if one.kind == "dead"]


def join_played(join: StreamJoin, commits: Iterable[Commit | None]) -> JoinRun:
    """Runs a join over commits on the reference; None stands for a restart, of which it notices nothing."""
    reference, result = reference_of(join), JoinRun(join)
    names = {source.name for source in join.inputs}
    for commit in commits:
        if commit is not None:
            own_events = tuple(event for event in commit.events if event.stream in names)
            output = reference.commit(replace(commit, events=own_events))
            result.rows += output.rows
            result.signs += output.signs
            result.refused += output.refused
    return result
