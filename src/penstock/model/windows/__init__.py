"""*Where* in event time a result belongs: the kinds of window, each a small value."""

from penstock.model.windows.base import Aligned, Assigned, CountBased, Interval, Merging, Window, span, touching
from penstock.model.windows.calendar import Calendar, calendar
from penstock.model.windows.counted import CountWindow, count_window
from penstock.model.windows.custom import Custom, custom
from penstock.model.windows.fixed import (
    Cumulating,
    Fixed,
    Global,
    Sliding,
    cumulating,
    fixed,
    global_window,
    sliding,
)
from penstock.model.windows.named import Named, window_of
from penstock.model.windows.session import CustomMerging, Session, custom_merging, session

__all__ = [
    "Aligned",
    "Assigned",
    "Calendar",
    "CountBased",
    "CountWindow",
    "Cumulating",
    "Custom",
    "CustomMerging",
    "Fixed",
    "Global",
    "Interval",
    "Merging",
    "Named",
    "Session",
    "Sliding",
    "Window",
    "calendar",
    "count_window",
    "cumulating",
    "custom",
    "custom_merging",
    "fixed",
    "global_window",
    "session",
    "sliding",
    "span",
    "touching",
    "window_of",
]
