"""What a join of streams did with a script of commits, as tests look at it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from penstock.model.as_of_reference import reference_of
from penstock.model.commits import Commit, Refused
from penstock.model.join import StreamJoin


@dataclass
class JoinPlayed:
    """The rows that came out, as tuples in the order of the columns, their signs, and the events that were rejected."""

    join: StreamJoin
    rows: list[tuple[object, ...]] = field(default_factory=list)
    signs: list[int] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)

    @property
    def late(self) -> list[Refused]:
        return [one for one in self.refused if one.kind == "late"]

    @property
    def dead(self) -> list[Refused]:
        return [one for one in self.refused if one.kind == "dead"]


def join_played(join: StreamJoin, commits: Iterable[Commit | None]) -> JoinPlayed:
    """Runs a join over commits on the reference; None stands for a restart, of which it notices nothing."""
    reference, found = reference_of(join), JoinPlayed(join)
    names = {source.name for source in join.inputs}
    for commit in commits:
        if commit is not None:
            mine = tuple(event for event in commit.events if event.stream in names)
            output = reference.commit(replace(commit, events=mine))
            found.rows += output.rows
            found.signs += output.signs
            found.refused += output.refused
    return found
