"""Numbers and times as a page shows them.

>>> number(1234567), number(12.345), rate(0.0), rate(1532.2), seconds(75.2), size(3_500_000)
('1 234 567', '12.3', '0/s', '1 532/s', '1 min 15 s', '3.5 MB')
"""

from __future__ import annotations

from datetime import UTC, datetime

from penstock.model.time import Instant


def number(value: float) -> str:
    """A number with thin gaps between thousands."""
    if isinstance(value, int) or abs(value) >= 100:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.1f}".rstrip("0").rstrip(".")


def rate(value: float) -> str:
    return f"{number(value)}/s"


def seconds(value: float) -> str:
    """A while in the largest two units that it has.

    >>> seconds(0.0423), seconds(3.21), seconds(7300), seconds(200_000)
    ('42 ms', '3.2 s', '2 h 1 min', '2 d 7 h')
    """
    if value < 0:
        return f"-{seconds(-value)}"
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 60:
        return f"{value:.1f} s"
    for one, unit, part, smaller in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if value >= one:
            return f"{int(value // one)} {unit} {int(value % one // part)} {smaller}"
    raise AssertionError(value)


def size(value: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{number(value if unit != 'B' else int(value))} {unit}"
        value /= 1000
    return f"{number(value)} TB"


def clock(at: Instant | None) -> str:
    """An instant as text, in UTC; nothing where there is none.

    >>> clock(1_714_564_800_000_000)
    '2024-05-01 12:00:00'
    """
    if at is None:
        return "–"
    try:
        return datetime.fromtimestamp(at / 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return str(at)
