"""Work that Ctrl-C must be able to interrupt."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def apart(work: Callable[[], Result]) -> Result:
    """Does something in a thread of its own, and waits for it.

    While ADBC asks the store in the main thread it takes the signal of Ctrl-C away from Python, and loses it.

    >>> apart(lambda: 1 + 1)
    2
    """
    results: list[Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="penstock-apart", daemon=True)
    thread.start()
    thread.join()
    for error in errors:
        raise error
    return results[0]
