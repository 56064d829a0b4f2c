"""The error of a model that cannot go on."""

from __future__ import annotations

from penstock.errors import PenstockError


class LearningError(PenstockError):
    """What a model did that it must not; the message names it and says what to do."""


class Misfit(LearningError):
    """A model returns something of another form than it declares: no single row causes it."""


def one_line(error: BaseException) -> str:
    """An error of user code in one line."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:500]
