"""A Spark session that is made while this process does something else: it loads code, opens the store, or waits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from penstock.runtime.spark.internals import make_active

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Whether the session is needed now.
IsNeeded: TypeAlias = "Callable[[], bool]"


class SparkStart:
    """Begins to make a session at once, in a thread of its own. What fails there is raised where it is asked for.

    `then` gets the session after that, and a function that says whether the session is needed: then it should end.
    """

    def __init__(
        self, make: Callable[[], SparkSession], then: Callable[[SparkSession, IsNeeded], None] | None = None
    ) -> None:
        self._make, self._then = make, then
        self._made, self._needed = threading.Event(), threading.Event()
        self._session: SparkSession | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="penstock-spark", daemon=True)
        self._thread.start()

    def session(self) -> SparkSession:
        """The session. Waits until it is there."""
        self._needed.set()
        self._made.wait()
        if self._error is not None:
            raise self._error
        assert self._session is not None
        make_active(self._session)
        return self._session

    def _run(self) -> None:
        try:
            self._session = self._make()
        except BaseException as error:
            self._error = error
        finally:
            self._made.set()
        if self._then is not None and self._session is not None:
            self._then(self._session, self._needed.is_set)
