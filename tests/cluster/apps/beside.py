"""A module beside the app's file: its functions run in tasks."""

from __future__ import annotations

from datetime import datetime, timedelta


def tens(at: datetime) -> list[tuple[datetime, datetime]]:
    """Windows of ten seconds, as a function of one's own."""
    start = at.replace(second=at.second - at.second % 10, microsecond=0)
    return [(start, start + timedelta(seconds=10))]
