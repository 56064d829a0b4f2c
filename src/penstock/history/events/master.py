"""What `penstock.history.events.event_history` was called before: its names, for one version, with a warning."""

from __future__ import annotations

import warnings

from penstock.history.events import event_history

_NAMES = {"Master": "EventHistory", "MasterPast": "HistoryPast"}


def __getattr__(name: str) -> object:
    if name not in _NAMES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    new = f"penstock.history.events.event_history.{_NAMES[name]}"
    warnings.warn(f"{__name__}.{name} is called {new} now", DeprecationWarning, stacklevel=2)
    return getattr(event_history, _NAMES[name])
