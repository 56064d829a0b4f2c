"""Changing and asking an app while it runs, from other processes of the same user.

`Live` runs an app and carries out statements that come through its socket; a `Client` sends them. What asks about data
needs no app: `ask` answers a SELECT from the store, and `Panes` follows the panes of a view.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.lazy import lazy

if TYPE_CHECKING:
    from penstock.control.changes import copied
    from penstock.control.client import Client, NoApp
    from penstock.control.live import Live
    from penstock.control.protocol import RemoteError, Reply
    from penstock.control.questions import ask, tables
    from penstock.control.subscribe import Panes, SubscriptionError

__getattr__ = lazy(
    __name__,
    {
        "changes": "copied",
        "client": "Client NoApp",
        "live": "Live",
        "protocol": "RemoteError Reply",
        "questions": "ask tables",
        "subscribe": "Panes SubscriptionError",
    },
)

__all__ = ["Client", "Live", "NoApp", "Panes", "RemoteError", "Reply", "SubscriptionError", "ask", "copied", "tables"]
