"""The jobs of the comparison whose packages are in the development environment, each on a little, against DuckDB."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench.peers import __main__ as peers
from bench.peers import answers, inputs
from bench.peers.contender import CONTENDERS
from bench.peers.workloads import WORKLOADS, Workload
from penstock.cli.load import load_app

#: One workload for each job that reads files.
JOBS = {one.job: one for one in WORKLOADS.values() if not one.on_kafka and one.cores == 0}
EVENTS, FILES = 3000, 2


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
            "PEERS_EVENTS": str(FILES * EVENTS), "PEERS_CORES": "2",
        }  # fmt: skip

    def check(self) -> None:
        answers.check(answers.answer(self.output, self.workload), self.right)


@pytest.mark.parametrize("job", JOBS)
def test_a_job_of_polars_has_duckdbs_answer(job: str, tmp_path: Path) -> None:
    case = Case(JOBS[job], tmp_path)
    measured = peers.one_run(
        CONTENDERS["polars"], case.workload, case.folder, case.table, case.right, tmp_path / "work", 60, 0, EVENTS
    )
    assert measured.problem == ""
    assert measured.rows == len(case.right) > 0


@pytest.mark.parametrize("job", JOBS)
def test_a_job_of_penstock_has_duckdbs_answer(
    job: str, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, contender = Case(JOBS[job], tmp_path), CONTENDERS["penstock"]
    for name, value in case.variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(str(contender.folder))
    for name in ("nexmark", "nexmark.bids"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    app = load_app(contender.folder / contender.job.format(workload=job))
    run = app.start(case.output / "state", spark=spark, tick=3600.0)
    try:
        run.catch_up()
    finally:
        run.stop()
    case.check()
