"""Follows server-sent events, and knows where to go on when the connection breaks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from penstock.client.wire import Row, ServerError, typed, unreachable


class Follower:
    """Reads server-sent events line by line, and knows where to go on when the connection breaks."""

    def __init__(self, last: int | None, snapshot: bool) -> None:
        self._last, self._snapshot, self._heard = last, snapshot, False
        self._kind, self._id, self._data = "", None, ""  # type: tuple[str, int | None, str]
        self._tries = 0
        self._columns: list[Row] = []

    def request(self, headers: Mapping[str, str]) -> dict[str, Any]:
        self._heard = False
        more = {} if self._last is None else {"Last-Event-ID": str(self._last)}
        return {"headers": {**headers, **more}, "params": {"snapshot": "true"} if self._snapshot else {}}

    def take(self, line: str) -> Row | None:
        """The row that ends with this line, if one does."""
        name, _, value = line.partition(":")
        if name == "event":
            self._kind = value.strip()
        elif name == "id":
            self._id = int(value)
        elif name == "data":
            self._data = value
        if line or not self._kind:
            return None
        kind, id, data = self._kind, self._id, json.loads(self._data)
        self._kind, self._id, self._data = "", None, ""
        self._heard, self._tries = True, 0
        if id is not None:
            self._last = id
        if kind == "end":
            if "stops" not in data["error"]:
                raise ServerError(None, data["error"], detail=data.get("detail"), hint=data.get("hint"))
            return None
        if kind == "pane":
            self._snapshot = False
        if kind == "position":
            self._columns = data["columns"]
        return typed([data], self._columns)[0] if kind in ("pane", "row") else None

    def broke(self, url: str, error: Exception) -> None:
        """A connection that was never made, or that breaks again and again, is an error."""
        if self._last is None or self._tries >= 10:
            raise unreachable(url, error) from error

    def pause(self) -> float:
        """How many seconds to wait before another try."""
        self._tries += 1
        self._snapshot = self._snapshot and self._last is None
        return min(5.0, 0.1 * (1 << self._tries))
