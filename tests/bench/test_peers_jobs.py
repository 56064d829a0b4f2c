"""The jobs of the comparison whose packages are in the development environment, each on a little, against DuckDB."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench.peers import __main__ as peers
from bench.peers import answers, inputs
from bench.peers.contender import CONTENDERS, ROOT
from bench.peers.workloads import WORKLOADS, Workload
from penstock.cli.load import load_app

#: One workload for each job that reads files.
JOBS = {one.job: one for one in WORKLOADS.values() if not one.on_kafka and one.cores == 0 and one.queries in (0, 10)}
#: Nexmark's queries that are run each time: rows, windows, sessions, a join, and the best of each key.
OFTEN = {f"nexmark/{query}" for query in ("q2", "q5", "q7", "q8", "q11", "q19")}
EVERY_TIME = [job for job in JOBS if job in OFTEN or not job.startswith("nexmark/")]
SOMETIMES = [job for job in JOBS if job not in EVERY_TIME]
CASES = [*EVERY_TIME, *(pytest.param(job, marks=pytest.mark.deep) for job in SOMETIMES)]
EVENTS, FILES = 3000, 2
#: Runs jobs one after the other in one process, which starts Spark once.
ONE_SPARK = """
import os, runpy, sys
for file, *variables in map(str.split, sys.argv[1:]):
    for name in [name for name in sys.modules if name == "session" or name.startswith("nexmark")]:
        del sys.modules[name]
    os.environ.update(variable.split("=", 1) for variable in variables)
    runpy.run_path(file, run_name="__main__")
"""


class Case:
    """A workload on a little: its input, and DuckDB's answer."""

    def __init__(self, workload: Workload, root: Path) -> None:
        self.workload, self.output = workload, root / "output"
        self.output.mkdir()
        self.folder = workload.prepared(root, FILES, EVENTS)
        self.table = inputs.table_of(root).parent
        self.right = answers.expected(workload, self.folder, self.table)

    @property
    def variables(self) -> dict[str, str]:
        return {
            "PEERS_INPUT": str(self.folder), "PEERS_TABLE": str(self.table), "PEERS_OUTPUT": str(self.output),
            "PEERS_EVENTS": str(FILES * EVENTS), "PEERS_CORES": "2", "PEERS_QUERIES": str(self.workload.queries or 1),
        }  # fmt: skip

    def check(self) -> None:
        answers.check(answers.answer(self.output, self.workload), self.right)


@pytest.mark.parametrize("job", CASES)
def test_a_job_of_polars_has_duckdbs_answer(job: str, tmp_path: Path) -> None:
    case = Case(JOBS[job], tmp_path)
    measured = peers.one_run(
        CONTENDERS["polars"], case.workload, case.folder, case.table, case.right, tmp_path / "work", 60, 0, EVENTS
    )
    assert measured.problem == ""
    assert measured.rows == len(case.right) > 0


@pytest.mark.parametrize("job", CASES)
def test_a_job_of_penstock_has_duckdbs_answer(
    job: str, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, contender = Case(JOBS[job], tmp_path), CONTENDERS["penstock"]
    for name, value in case.variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(str(contender.folder))
    for name in [name for name in sys.modules if name.partition(".")[0] == "nexmark"]:
        monkeypatch.delitem(sys.modules, name)
    app = load_app(contender.folder / contender.job.format(workload=job))
    run = app.start(case.output / "state", spark=spark, tick=3600.0)
    try:
        run.catch_up()
    finally:
        run.stop()
    case.check()


@pytest.mark.parametrize("jobs", [EVERY_TIME, pytest.param(SOMETIMES, marks=pytest.mark.deep)], ids=["often", "deep"])
def test_the_jobs_of_structured_streaming_have_duckdbs_answers(jobs: list[str], tmp_path: Path) -> None:
    contender, cases = CONTENDERS["spark"], []
    for number, job in enumerate(jobs):
        if contender.reason(JOBS[job].name, job) is None:
            root = tmp_path / str(number)
            root.mkdir()
            cases.append(Case(JOBS[job], root))
    lines = [
        " ".join([str(contender.folder / f"{case.workload.job}.py"), *map("=".join, case.variables.items())])
        for case in cases
    ]
    done = subprocess.run(
        [sys.executable, "-c", ONE_SPARK, *lines], capture_output=True, text=True, check=False,
        env=os.environ | contender.environment_of(2) | {"PEERS_OUTPUT": str(tmp_path)}, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    for case in cases:
        case.check()
