"""What a join of streams did with a script of commits, as tests look at it, and as views over it read it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from penstock.model.commits import Commit, Event, Refused
from penstock.model.join import StreamJoin
from penstock.model.join_reference import JoinReference


@dataclass
class JoinPlayed:
    """The rows that came out, as tuples in the order of the columns, and the events that were refused."""

    join: StreamJoin
    rows: list[tuple[object, ...]] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)

    @property
    def late(self) -> list[Refused]:
        return [one for one in self.refused if one.kind == "late"]

    @property
    def dead(self) -> list[Refused]:
        return [one for one in self.refused if one.kind == "dead"]


def join_played(join: StreamJoin, commits: Iterable[Commit | None]) -> JoinPlayed:
    """Runs a join over commits on the reference; None stands for a restart, of which it notices nothing."""
    reference, found = JoinReference(join), JoinPlayed(join)
    names = {source.name for source in join.inputs}
    for commit in commits:
        if commit is not None:
            mine = tuple(event for event in commit.events if event.stream in names)
            gave = reference.commit(replace(commit, events=mine))
            found.rows += gave.rows
            found.refused += gave.refused
    return found


def with_joins(commits: Iterable[Commit | None], joins: Mapping[str, StreamJoin]) -> Iterator[Commit | None]:
    """Commits, each followed by what joins of streams, by the names of what they give, make of it: a commit of its own.

    What is said of the watermark of such a stream holds after the rows that come out.
    """
    references = {name: JoinReference(join) for name, join in joins.items()}
    given = dict.fromkeys(joins, 0)
    for commit in commits:
        if commit is None:
            yield None
            continue
        known = [replace(commit, fixed={name: mark for name, mark in commit.fixed.items() if name not in joins})]
        yield known[0]
        for name, reference in references.items():
            sources = {source.name for source in joins[name].inputs}
            rows = []
            for one in known:
                mine = tuple(event for event in one.events if event.stream in sources)
                rows += reference.commit(replace(one, events=mine)).rows
            names, first = joins[name].schema.names, given[name]
            events = (Event(name, dict(zip(names, row, strict=True)), 0, first + n) for n, row in enumerate(rows))
            given[name] += len(rows)
            if rows or name in commit.fixed:
                fixed = {name: commit.fixed[name]} if name in commit.fixed else {}
                known.append(Commit(commit.now, tuple(events), fixed, commit.caught_up))
                yield known[-1]
