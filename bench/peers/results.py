"""The results: one file of JSON for each workload, which a run replaces, and what the tables and charts say of it."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

#: The cores that other programs may use during a run that counts.
QUIET = 1.0


@dataclass(frozen=True)
class Measured:
    """One run of a contender. `first` are the seconds to the first row of its answer, where that is seen.

    `problem` says why it does not count: it failed, or its answer is wrong.
    """

    contender: str
    round: int
    events: int
    seconds: float = 0.0
    cpu: float = 0.0
    memory: int = 0
    beside: float = 0.0
    rows: int = 0
    first: float = 0.0
    problem: str = ""


@dataclass(frozen=True)
class Spread:
    """The median of several rounds, and the least and the most."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: list[float]) -> Spread | None:
        return cls(statistics.median(values), min(values), max(values)) if values else None


@dataclass
class Result:
    """What was measured of a workload, when, on which machine, with which versions and commands.

    `titles` are the contenders that were asked for, in their order; `reasons` says why some of them have no figures.
    """

    workload: str
    title: str
    text: str
    has_state: bool
    date: str
    command: str
    machine: Mapping[str, str]
    titles: dict[str, str] = field(default_factory=dict)
    once: list[str] = field(default_factory=list)
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    commands: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    runs: list[Measured] = field(default_factory=list)

    @property
    def sizes(self) -> tuple[int, int]:
        """The events of the short and of the long runs."""
        sizes = sorted({run.events for run in self.runs}) or [0]
        return sizes[0], sizes[-1]

    def sizes_of(self, contender: str) -> tuple[int, int]:
        """The same of one contender: the long runs of slow ones are shorter."""
        sizes = sorted({run.events for run in self.runs if run.contender == contender}) or [0]
        return sizes[0], sizes[-1]

    def reason(self, contender: str) -> str | None:
        """Why a contender has no figures: it cannot, or one of its runs did not count."""
        problems = [run.problem for run in self._of(contender) if run.problem]
        return self.reasons.get(contender) or (problems[0] if problems else None)

    def measured(self) -> list[str]:
        """The contenders with figures."""
        return [name for name in self.titles if self.reason(name) is None and any(self._of(name))]

    def seconds(self, contender: str, events: int) -> Spread | None:
        """From the command to its end."""
        return Spread.of([run.seconds for run in self._of(contender) if run.events == events])

    def first(self, contender: str) -> Spread | None:
        """From the command to the first row of the answer, over all runs."""
        return Spread.of([run.first for run in self._of(contender) if run.first])

    def rate(self, contender: str) -> Spread | None:
        """Events a second in steady state: what the long run has more than the short one, by the time it takes longer.

        The median's is that of the median times, since a difference of single rounds adds their noise.
        """
        short, long = self.sizes_of(contender)
        times = {(run.round, run.events): run.seconds for run in self._of(contender)}
        both = [(times[n, short], times[n, long]) for n, size in times if size == short and (n, long) in times]
        rates = [(long - short) / (late - early) for early, late in both if late > early]
        medians = [self.seconds(contender, size) for size in (short, long)]
        if medians[0] is None or medians[1] is None or medians[1].median <= medians[0].median:
            return None
        rate = (long - short) / (medians[1].median - medians[0].median)
        return Spread(rate, min([rate, *rates]), max([rate, *rates]))

    def memory(self, contender: str) -> int:
        """The most memory of a run, in bytes."""
        return max(run.memory for run in self._of(contender))

    def cpu(self, contender: str) -> float:
        """Microseconds of CPU for an event, in steady state."""
        short, long = self.sizes_of(contender)
        used = [
            statistics.median(run.cpu for run in self._of(contender) if run.events == size) for size in (short, long)
        ]
        return (used[1] - used[0]) / (long - short) * 1e6

    @property
    def beside(self) -> float:
        """The cores that other programs used during the runs that count, on average."""
        counted = [run.beside for run in self.runs if not run.problem and not self._is_disturbed(run)]
        return statistics.mean(counted) if counted else 0.0

    @property
    def disturbed(self) -> list[Measured]:
        """The runs that do not count since other programs used too much of the machine."""
        return [run for run in self.runs if self._is_disturbed(run)]

    def _of(self, contender: str) -> Iterator[Measured]:
        return (run for run in self.runs if run.contender == contender and not self._is_disturbed(run))

    def _is_disturbed(self, run: Measured) -> bool:
        """Whether other programs took so much of the machine that the run does not count.

        Where they did so in all runs of a size, all of these count.
        """
        same = (one for one in self.runs if (one.contender, one.events) == (run.contender, run.events))
        return run.beside > QUIET and any(one.beside <= QUIET for one in same)


def write(result: Result, folder: Path) -> Path:
    """Writes a result in place of the one before; contenders that were not asked this time go."""
    return save(result, result.workload, folder)


def save(record: DataclassInstance, name: str, folder: Path) -> Path:
    """Writes what was measured into a file of JSON of this name."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(asdict(record), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def read(folder: Path) -> dict[str, Result]:
    """The results in a folder, by workload."""
    results = {}
    for path in sorted(folder.glob("*.json")):
        fields = json.loads(path.read_text(encoding="utf-8"))
        runs = [Measured(**run) for run in fields.pop("runs")]
        results[path.stem] = Result(**fields, runs=runs)
    return results
