"""A plan as people read it.

>>> from penstock.plans.plan import Change, Cost, Plan
>>> added = Change("add", "view", "by_user", Cost.BACK_FILL, "fill", "it is computed from all of history")
>>> print(text_of(Plan("shop", (added,))))
app 'shop': 1 change
<BLANKLINE>
  + view 'by_user'  (back-fill)
      it is computed from all of history
<BLANKLINE>
1 to add, 0 to change, 0 to rename, 0 to remove
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from penstock.plans.plan import Change, Plan, Verb

_SIGNS: Final[dict[Verb, str]] = {"add": "+", "change": "~", "rename": ">", "remove": "-"}
#: A text of a definition is shown up to this length.
_WIDE: Final = 160


def text_of(plan: Plan, rows: Mapping[str, str] | None = None) -> str:
    """All changes with what they cost. `rows` are texts on the rows that would change, by view."""
    if not plan.changes:
        return f"app '{plan.app}': nothing changes"
    count = len(plan.changes)
    lines = [f"app '{plan.app}': {count} change{'' if count == 1 else 's'}", ""]
    for change in plan.changes:
        lines += _lines(change, (rows or {}).get(change.name) if change.kind == "view" else None)
    return "\n".join([*lines, "", summary(plan)])


def brief(changes: Iterable[Change]) -> str:
    """Changes in a sentence: what differs, and what it costs.

    >>> from penstock.plans.plan import Change, Cost
    >>> brief([Change("add", "view", "by_user", Cost.BACK_FILL, "fill", "it is computed from all of history")])
    "view 'by_user' is new (back-fill)"
    """
    return "; ".join(map(_sentence, changes))


def _sentence(change: Change) -> str:
    parts = " and ".join(one.part for one in change.differences) or "input"
    what = {"add": "is new", "change": f"has another {parts}", "rename": f"was '{change.was}'", "remove": "is gone"}
    return f"{change.subject} {what[change.verb]}" + ("" if change.cost == "nothing" else f" ({change.cost})")


def summary(plan: Plan) -> str:
    """How many changes there are of each kind, and whether they lose state."""
    counts = {verb: sum(change.verb == verb for change in plan.changes) for verb in _SIGNS}
    text = ", ".join(f"{count} to {verb}" for verb, count in counts.items())
    lossy, refused = len(plan.lossy), len(plan.refused)
    text += f". State is lost by {lossy} of them" if lossy else ""
    return text + (f". {refused} cannot be done" if refused else "")


def _lines(change: Change, rows: str | None) -> Iterator[str]:
    was = "" if change.was is None else f", until now '{change.was}'"
    yield f"  {_SIGNS[change.verb]} {change.subject}{was}  ({change.cost})"
    for one in change.differences:
        yield f"      {one.part}: {_short(one.old)} -> {_short(one.new)}"
    yield f"      {change.meaning}"
    if rows is not None:
        yield f"      {rows}"


def _short(text: str) -> str:
    line = " ".join(text.split()) or "none"
    return line if len(line) <= _WIDE else f"{line[: _WIDE - 1]}…"
