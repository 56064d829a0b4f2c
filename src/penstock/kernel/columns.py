"""Names of columns that all frames of the kernel share. They stand apart, for readers that need no more of it."""

from __future__ import annotations

#: A window's bounds.
START, END = "__start", "__end"
