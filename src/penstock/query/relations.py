"""What the planner knows of a relation: its SQL, and its columns."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.query.plan import Filter


@dataclass(frozen=True)
class Output:
    """A column of a query's answer. `column` is its name in SQL."""

    name: str
    type: str
    column: str


@dataclass(frozen=True)
class Relation:
    """A query as SQL, with its columns."""

    sql: str
    outputs: tuple[Output, ...]


@dataclass
class ScanUse:
    """A use of a view: which columns it needs, and which filters hold for all its rows that count."""

    view: str
    name: str
    columns: list[str] = field(default_factory=list)
    filters: list[Filter] = field(default_factory=list)


def quoted(name: str) -> str:
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'
