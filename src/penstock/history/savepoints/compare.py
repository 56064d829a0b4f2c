"""Which views of an app can go on with the state that a savepoint has, and what has changed in the others.

The digest of a definition decides, as it does when an app starts. What differs is found in the definitions' texts.

>>> differences("ps.stream('s').group_by('k').agg(n=ps.count())", "ps.stream('s').group_by('j').agg(n=ps.count())")
["group_by('k') → group_by('j')"]
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from penstock.history.savepoints.manifest import Savepoint, SavepointError
from penstock.model.view import View


@dataclass(frozen=True)
class Verdict:
    """What becomes of a view: whether it goes on, and what there is to say about it."""

    view: str
    goes_on: bool
    explanation: str


def compare(savepoint: Savepoint, views: Mapping[str, View], dropped: Collection[str] = ()) -> list[Verdict]:
    """A verdict on each view of the app and of the savepoint."""
    verdicts = []
    for name in sorted({*views, *savepoint.views}):
        saved, view = savepoint.views.get(name), views.get(name)
        if saved is None or name in dropped:
            verdict = Verdict(name, True, "starts empty, with the events after the savepoint")
        elif view is None:
            explanation = (
                "comes back from the shell's statement" if saved.shell else "is not the app's: its table stays"
            )
            verdict = Verdict(name, True, explanation)
        else:
            changed = "; ".join(differences(saved.definition, repr(view)))
            goes_on = saved.fingerprint == view.fingerprint()
            verdict = Verdict(name, goes_on, changed or ("goes on" if goes_on else "a function's code has changed"))
        verdicts.append(verdict)
    return verdicts


def refuse_changed(savepoint: Savepoint, verdicts: list[Verdict]) -> None:
    """Refuses views that cannot go on with their state, with the way out."""
    changed = [verdict for verdict in verdicts if not verdict.goes_on]
    if changed:
        drops = " ".join(f"--drop {verdict.view}" for verdict in changed)
        raise SavepointError(
            f"the savepoint '{savepoint.name}' has the state of other definitions: "
            + ", ".join(f"'{verdict.view}'" for verdict in changed),
            detail="\n  ".join(f"{verdict.view}: {verdict.explanation}" for verdict in changed),
            hint=f"give the new views other names, or let them start empty from the savepoint on: {drops}",
        )


def differences(old: str, new: str) -> list[str]:
    """What differs between two definitions, call by call."""
    before, after = _calls(old), _calls(new)
    if before is None or after is None:
        return [] if old == new else [f"{old} → {new}"]
    lines: list[str] = []
    for name in dict.fromkeys(name for name, _ in before + after):
        pairs = zip_longest(*([text for known, text in calls if known == name] for calls in (before, after)))
        lines += [f"{a or 'nothing'} → {b or 'nothing'}" for a, b in pairs if a != b]
    return lines


def _calls(definition: str) -> list[tuple[str, str]] | None:
    """The calls of a chain in order, argument by argument, each with its name; None if it is not a chain."""
    try:
        node: ast.expr = ast.parse(definition, mode="eval").body
    except SyntaxError:
        return None
    calls: list[tuple[str, str]] = []
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        calls += reversed(_parts(node.func.attr, node))
        node = node.func.value
    return calls[::-1] if isinstance(node, ast.Name) else None


def _parts(name: str, call: ast.Call) -> list[tuple[str, str]]:
    """A call as one with what has no name, and one for each argument that has."""
    parts = []
    if call.args or not call.keywords:
        parts.append((name, ast.unparse(ast.Call(ast.Name(name), call.args, []))))
    for keyword in call.keywords:
        parts.append((f"{name}.{keyword.arg}", ast.unparse(ast.Call(ast.Name(name), [], [keyword]))))
    return parts
