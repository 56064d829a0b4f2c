"""Where Spark runs: in this process's own Java, or on a cluster, by the address of its master.

>>> is_local("local[2]"), is_local("spark://here:7077"), is_local("yarn")
(True, False, False)
"""

from __future__ import annotations

import re
import socket
from typing import Final

from penstock.errors import PenstockError

_LOCAL: Final = re.compile(r"local(\[.*\])?")
_HERE: Final = ("127.0.0.1", "localhost", "::1")
_PORT: Final = 7077
_SECONDS: Final = 5.0
#: A task that takes far longer than the others of its stage is started once more, elsewhere; the first to end counts.
#: Deltas of the other one never reach a commit. Short tasks are not worth it.
_STRAGGLERS: Final = {
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.75",
    "spark.speculation.multiplier": "2",
    "spark.speculation.minTaskRuntime": "2s",
    "spark.speculation.task.duration.threshold": "30s",  # where a stage has so few tasks that there are no others
}

#: A driver that only processes of this machine need to reach listens to them alone.
LOOPBACK: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}

#: Linux's malloc gives each thread a heap of its own, up to eight a core, and what RocksDB frees in one of them the
#: others cannot use: Java would hold several times what RocksDB needs. So there are few, for Java and for executors.
HEAPS: Final = {"MALLOC_ARENA_MAX": "2"}


def is_local(master: str) -> bool:
    """Whether tasks run in the driver's own Java."""
    return _LOCAL.fullmatch(master) is not None


def cluster_settings(master: str) -> dict[str, str]:
    """What an app on a cluster is given, where its user says nothing else."""
    here = all(host in _HERE for host, _ in _addresses(master)) and bool(_addresses(master))
    heaps = {f"spark.executorEnv.{name}": value for name, value in HEAPS.items()}
    return {**_STRAGGLERS, **heaps, **(LOOPBACK if here else {})}


def reach(master: str) -> None:
    """Refuses a standalone master at which nobody listens: Spark itself would try for a minute."""
    tried = []
    for host, port in _addresses(master):
        try:
            socket.create_connection((host, port), _SECONDS).close()
            return
        except OSError as error:
            tried.append(f"{host}:{port}: {error.strerror or error}")
    if tried:
        raise PenstockError(
            f"there is no Spark master at '{master}'",
            detail="; ".join(tried),
            hint="start one (make cluster, or Spark's own start-master.sh), or leave out --master",
        )


def _addresses(master: str) -> list[tuple[str, int]]:
    """The hosts of a standalone master and of those that wait to take its place; none for other masters.

    >>> _addresses("spark://one:7077,two:7078"), _addresses("yarn")
    ([('one', 7077), ('two', 7078)], [])
    """
    if not master.startswith("spark://"):
        return []
    addresses = []
    for part in master.removeprefix("spark://").split(","):
        host, _, port = part.rpartition(":")
        if not port.isdigit():
            raise PenstockError(f"not the address of a Spark master: '{master}'", hint=f"write spark://host:{_PORT}")
        addresses.append((host.strip("[]"), int(port)))
    return addresses
