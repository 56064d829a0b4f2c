"""Answers that are errors: a status, and what was wrong in the words of all other errors."""

from __future__ import annotations

from typing import Any

from penstock.errors import PenstockError


class Answered(PenstockError):
    """A request is answered with this status. `retry`: seconds after which the client may try again."""

    def __init__(
        self, status: int, message: str, *, detail: str | None = None, hint: str | None = None,
        retry: int | None = None, more: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(message, detail=detail, hint=hint)
        self.status, self.retry, self.more = status, retry, more or {}

    @property
    def body(self) -> dict[str, Any]:
        return error_body(self) | self.more

    @property
    def headers(self) -> dict[str, str]:
        headers = {} if self.retry is None else {"Retry-After": str(self.retry)}
        return headers | ({"WWW-Authenticate": "Bearer"} if self.status == 401 else {})


def error_body(error: PenstockError) -> dict[str, Any]:
    """An error as the body of a response."""
    fields = {"error": error.message, "detail": error.detail, "hint": error.hint}
    return {name: text for name, text in fields.items() if text is not None}
