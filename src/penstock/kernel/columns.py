"""Names of columns that all frames of the kernel share, in a module that is cheap to import."""

from __future__ import annotations

#: A window's bounds.
START, END = "__start", "__end"
