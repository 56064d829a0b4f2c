"""Retries after transient faults: a broker that is away or hangs, a store that is locked or full, a worker that died.

The data does not cause such a fault: the same epoch, read again later, succeeds. So the stream's query is restarted
after growing pauses; a warning says so, and `Run.faults` shows it. A fault that lasts too long, or is not transient,
ends the run.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from penstock.errors import PenstockError
from penstock.runtime.errors import essence
from penstock.store.connection import Busy, Full

_log = logging.getLogger("penstock.runtime")

#: What Spark says where a process that was taken over has still written to its log; the next start reads that.
_DISPUTED: Final = ("CONCURRENT_STREAM_LOG_UPDATE", "Concurrent update to the log")
#: The answer to executors that ask the driver while it cannot reach the store.
AWAY: Final = "the store does not answer for the moment"
#: What Kafka's clients, the network, Spark and the disk say of faults that pass.
_SIGNS: Final = (
    *(
        f"org.apache.kafka.common.errors.{name}Exception"
        for name in (
            "Timeout", "Disconnect", "Network", "BrokerNotAvailable", "CoordinatorNotAvailable", "LeaderNotAvailable",
            "NotLeaderOrFollower", "ReplicaNotAvailable", "KafkaStorage", "OffsetNotAvailable",
        )
    ),
    "java.util.concurrent.TimeoutException: Cannot fetch record",
    "java.net.ConnectException",
    "java.net.SocketTimeoutException",
    "Python worker exited unexpectedly",
    "Python worker failed to connect back",
    "No space left on device",
    "Too many open files",
    AWAY,
    *_DISPUTED,
)  # fmt: skip


def passes(error: BaseException) -> bool:
    """Whether an error tells of a fault that passes by itself."""
    while True:
        if isinstance(error, (Busy, Full)):
            return True
        if not isinstance(error, PenstockError) and any(sign in str(error) for sign in _SIGNS):
            return True
        if error.__cause__ is None:
            return False
        error = error.__cause__


def is_disputed(error: BaseException) -> bool:
    """Whether two processes have written to one log of Spark's. The store's token decides which one may go on."""
    return any(sign in str(error) for sign in _DISPUTED)


@dataclass(frozen=True)
class Fault:
    """A failure of a part of a run: the last error, how often in a row it failed, and since when.

    The part is tried again when it is `due`, by the monotonic clock.
    """

    error: BaseException
    count: int
    since: float
    due: float


class Retries:
    """The faults of a run's parts, which may fail for `patience` seconds; `pauses`: the first and the longest."""

    def __init__(
        self,
        patience: float,
        pauses: tuple[float, float] = (0.5, 30.0),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.patience, self._pauses, self._clock = patience, pauses, clock
        self._faults: dict[str, Fault] = {}
        self._tried: set[str] = set()  # parts that fail, and that were started again since

    @property
    def faults(self) -> dict[str, Fault]:
        """The parts that fail now, and why. Parts that have recovered are left out."""
        return dict(self._faults)

    def failed(self, part: str, error: BaseException) -> bool:
        """Records that a part failed; whether it is tried again."""
        now, before = self._clock(), self._faults.get(part)
        count, since = (1, now) if before is None else (before.count + 1, before.since)
        if not passes(error) or now - since > self.patience:
            return False
        first, longest = self._pauses
        pause = min(longest, first * 2 ** min(count - 1, 30))
        self._faults[part] = Fault(error, count, since, now + pause)
        self._tried.discard(part)
        _log.warning("%s failed (%d in a row), next try in %g s: %s", part, count, pause, essence(error))
        return True

    def waits(self, part: str) -> bool:
        """Whether a part has failed and was not tried again yet."""
        return part in self._faults and part not in self._tried

    def is_due(self, part: str) -> bool:
        """Whether a part that has failed may be tried again now."""
        return self.waits(part) and self._clock() >= self._faults[part].due

    def tried(self, part: str) -> None:
        """The part was started again; whether it works is not known yet."""
        self._tried.add(part)

    def succeeded(self, part: str) -> None:
        """The part has done its work."""
        fault = self._faults.pop(part, None)
        self._tried.discard(part)
        if fault is not None:
            _log.warning("%s works again, after %.1f s", part, self._clock() - fault.since)

    def forget(self, part: str) -> None:
        """It is not part of the run any more."""
        self._faults.pop(part, None)
        self._tried.discard(part)
