"""Answers that are errors: a status, and what was wrong in the words of all other errors."""

from __future__ import annotations

from typing import Any

from penstock.errors import PenstockError


class Answered(PenstockError):
    """A request is answered with this status. `retry`: in so many seconds it may be tried again."""

    def __init__(
        self, status: int, message: str, *, detail: str | None = None, hint: str | None = None,
        retry: int | None = None, more: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(message, detail=detail, hint=hint)
        self.status, self.retry, self.more = status, retry, more or {}

    @property
    def body(self) -> dict[str, Any]:
        return told(self) | self.more

    @property
    def headers(self) -> dict[str, str]:
        found = {} if self.retry is None else {"Retry-After": str(self.retry)}
        return found | ({"WWW-Authenticate": "Bearer"} if self.status == 401 else {})


def told(error: PenstockError) -> dict[str, Any]:
    """An error as the body of an answer."""
    found = {"error": error.message, "detail": error.detail, "hint": error.hint}
    return {name: text for name, text in found.items() if text is not None}
