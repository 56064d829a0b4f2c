"""When two results are the same: exactly, but for sums of floats, which may differ by a stated tolerance."""

from __future__ import annotations

import math

from penstock.model.commits import Rejection
from penstock.model.order import canonical
from penstock.testing import Result

#: Sums of floats depend on the order of addition; this is how far apart two orders may be.
TOLERANCE = 1e-9


def same(a: object, b: object) -> bool:
    """
    >>> same(0.1 + 0.2, 0.3), same(float("nan"), float("nan")), same(1, 2), same(None, 0)
    (True, True, False, False)
    """
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return type(a) is type(b) and canonical(a) == canonical(b)


def differences(expected: Result, got: Result) -> list[str]:
    """What differs, in words; nothing if the results are the same."""
    found: list[str] = []
    for what, left, right in (
        ("pane", [_pane(f) for f in expected.fired], [_pane(f) for f in got.fired]),
        ("row", [_row(r) for r in expected.rows], [_row(r) for r in got.rows]),
        ("refused", _refused(expected), _refused(got)),
    ):
        for number in range(max(len(left), len(right))):
            a = left[number] if number < len(left) else None
            b = right[number] if number < len(right) else None
            if a is None or b is None or not same(a, b):
                found.append(f"{what} {number}:\n  expected {a}\n  got      {b}")
    return found


def _pane(fired: object) -> list[object]:
    pane = fired.pane  # type: ignore[attr-defined]
    return [
        fired.commit,  # type: ignore[attr-defined]
        list(pane.key),
        list(pane.window),
        list(pane.values),
        pane.kind,
        pane.timing,
        pane.index,
        pane.final,
    ]


def _row(row: object) -> list[object]:
    return [list(row.key), list(row.window), list(row.values), row.final]  # type: ignore[attr-defined]


def _refused(result: Result) -> list[list[object]]:
    return sorted(
        [r.kind, r.event.stream, r.event.partition, r.event.offset, r.missed, r.windows, _reason(r)]
        for r in result.refused
    )


def _reason(refused: Rejection) -> str:
    """Why an event is late or came twice: the same words everywhere. Those of failing expressions may differ."""
    return "" if refused.kind == "dead" else refused.reason
