"""The comparison with peers, without them: wrong answers are refused, and pages say what was measured."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest

from bench.peers import __main__ as peers
from bench.peers import answers, chart, inputs, pages, results
from bench.peers.contender import CONTENDERS, Contender
from bench.peers.process import JobFailed, run
from bench.peers.results import Measured, Result
from bench.peers.workloads import WORKLOADS, Workload

WORDS = Workload("words", "Word count", "Words.", "words", inputs.lines, {"word": "VARCHAR", "n": "BIGINT"})
RIGHT = pl.DataFrame({"word": ["a", "b", "b", None], "n": [1, 2, 2, 3]})
#: A job that writes what the environment says.
WRITES = "import os; open(os.environ['PEERS_OUTPUT'] + '/answer.csv', 'w').write('a,1\\nb,2\\nb,2\\n,3\\n')"


def test_the_same_rows_in_any_order_are_the_right_answer() -> None:
    answers.check(RIGHT.reverse(), RIGHT)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            pl.DataFrame({"word": ["a", "b", "b", None], "n": [2, 2, 2, 3]}),
            "has \\('a', 2, 1\\) and lacks \\('a', 1, 1\\)",
        ),
        (RIGHT.filter(pl.col("word").is_not_null()), "0 rows of 3 .* 1 of its 4 rows are missing"),
        (pl.concat([RIGHT, RIGHT.head(1)]), "has \\('a', 1, 2\\) and lacks \\('a', 1, 1\\)"),
        (RIGHT.head(0), "0 rows of 0"),
        (RIGHT.rename({"n": "m"}), "columns \\['word', 'm'\\]"),
    ],
    ids=["another value", "a missing row", "a row twice", "nothing", "other columns"],
)
def test_a_wrong_answer_is_refused(wrong: pl.DataFrame, message: str) -> None:
    with pytest.raises(answers.WrongAnswer, match=message):
        answers.check(wrong, RIGHT)


def contender(script: str) -> Contender:
    return Contender("fake", "Fake", "polars", (sys.executable, "-c", script))


def one_run(script: str, tmp_path: Path, limit: float = 60) -> Measured:
    return peers.one_run(contender(script), WORDS, tmp_path, tmp_path, RIGHT, tmp_path / "work", limit, 1, 1000)


def test_a_run_with_the_right_answer_counts(tmp_path: Path) -> None:
    measured = one_run(WRITES, tmp_path)
    assert (measured.problem, measured.rows, measured.round, measured.events) == ("", 4, 1, 1000)
    assert measured.seconds > 0
    assert list((tmp_path / "work" / "output").iterdir()) == []


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (WRITES.replace("a,1", "a,2"), "wrong answer: 1 rows of 4 are not in DuckDB's answer"),
        (WRITES + "; raise SystemExit('no more memory')", "ended with 1: no more memory"),
        ("pass", "it left no answer"),
    ],
    ids=["wrong", "failed", "silent"],
)
def test_a_run_without_the_right_answer_has_no_time(script: str, message: str, tmp_path: Path) -> None:
    measured = one_run(script, tmp_path)
    assert message in measured.problem
    assert (measured.seconds, measured.cpu, measured.memory) == (0.0, 0.0, 0)


def test_a_job_that_does_not_end_is_ended_with_all_that_it_has_started(tmp_path: Path) -> None:
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import signal; signal.pause()'])"
    with pytest.raises(JobFailed, match="not done after 0 s"):
        run([sys.executable, "-c", child], {}, tmp_path, 0.3)


def result(**seconds: tuple[float, float]) -> Result:
    """Two rounds; each contender's seconds for a thousand and for a million events, the second round a bit longer."""
    runs = [
        Measured(name, number, events, taken * (1 + number / 10), taken, 500_000_000, rows=4)
        for number in (0, 1)
        for name, both in seconds.items()
        for events, taken in zip((1000, 1_001_000), both, strict=True)
    ]
    titles = {name: name.title() for name in seconds}
    return Result(
        "words", "Word count", "Words.", True, "2026-01-01", "make peers", {"cores": "2 cores"}, titles,
        versions={name: {name: "1.0"} for name in seconds}, commands=dict.fromkeys(seconds, "run it"), runs=runs,
    )  # fmt: skip


def test_steady_state_is_what_more_events_take_longer() -> None:
    rate = result(penstock=(10.0, 11.0)).rate("penstock")
    assert rate is not None
    assert rate.median == pytest.approx(1_000_000 / 1.05)
    assert (rate.least, rate.most) == (pytest.approx(1_000_000 / 1.1), pytest.approx(1_000_000))


def test_a_run_beside_which_others_used_a_core_does_not_count_where_others_do() -> None:
    disturbed = result(penstock=(10.0, 11.0), other=(1.0, 3.0))
    disturbed.runs = [replace(run, beside=1.5) if run.round == 1 else run for run in disturbed.runs]
    kept, rate = disturbed.seconds("penstock", 1000), disturbed.rate("other")
    assert kept is not None
    assert rate is not None
    assert (kept.median, rate.median, rate.most, len(disturbed.disturbed)) == (10.0, 500_000, 500_000, 4)
    disturbed.runs = [replace(run, beside=1.5) for run in disturbed.runs]
    assert disturbed.seconds("penstock", 1000) == result(penstock=(10.0, 11.0)).seconds("penstock", 1000)


def test_a_table_says_who_is_how_much_faster_and_why_one_has_no_figures() -> None:
    shown = result(penstock=(10.0, 11.0), other=(1.0, 3.0), broken=(1.0, 2.0))
    shown.runs[-1] = replace(shown.runs[-1], problem="wrong answer: none")
    lines = {
        line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[2:-1]] for line in pages.table(shown)
    }
    assert lines["Other"][0] == "476 k/s (455–500)"
    assert lines["Other"][1] == "2.00"
    assert lines["Penstock"][2:4] == ["10.5 s (10.0–11.0)", "11.6 s (11.0–12.1)"]
    assert lines["Broken"] == ["wrong answer: none", "", "", "", "", ""]
    (mean,) = [line.split("|") for line in pages.summary([shown]) if "geometric mean" in line]
    assert [cell.strip() for cell in mean[2:-1]] == ["2.00", "–"]


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = result(penstock=(10.0, 11.0), other=(1.0, 3.0))
    results.write(written, tmp_path)
    assert results.read(tmp_path) == {"words": written}


def test_a_chart_has_a_bar_and_a_number_for_each_contender() -> None:
    drawn = ElementTree.fromstring(chart.throughput([result(penstock=(10.0, 11.0), other=(1.0, 3.0))]))
    texts = [element.text for element in drawn.iter() if element.tag.endswith("text")]
    assert {"Penstock", "952 k/s", "Other", "476 k/s", "2026-01-01, 2 cores"} <= set(texts)
    widths = [float(element.attrib["width"]) for element in drawn.iter() if element.tag.endswith("rect")][1:]
    assert widths[0] == pytest.approx(2 * widths[1], rel=1e-3)


def jobs() -> Iterator[tuple[str, str, str]]:
    for workload in WORKLOADS.values():
        for one in CONTENDERS.values():
            yield workload.name, workload.job, one.name


@pytest.mark.parametrize(("workload", "job", "name"), list(jobs()))
def test_every_contender_has_a_job_for_a_workload_or_a_reason(workload: str, job: str, name: str) -> None:
    one = CONTENDERS[name]
    exists = (one.folder / one.job.format(workload=job)).exists()
    assert exists == (one.reason(workload, job) is None)


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=lambda workload: workload.name)
def test_duckdb_answers_every_workload(workload: Workload, tmp_path: Path) -> None:
    folder = workload.prepared(tmp_path, 2, 3000)
    last = ["0002.json"] if workload.last else []
    assert sorted(path.name for path in folder.iterdir()) == ["0000.json", "0001.json", *last]
    frame = answers.expected(workload, folder, inputs.table_of(tmp_path).parent)
    assert frame.columns == list(workload.columns)
    assert len(frame) > 0


def test_the_pages_and_charts_are_those_of_the_results() -> None:
    known = results.read(peers.RESULTS)
    assert known, "measure something: make peers"
    ordered = [known[name] for name in WORKLOADS if name in known]
    for path, content in peers.rendered(ordered, peers.RESULTS).items():
        assert path.read_text(encoding="utf-8") == content, f"{path}: run make peers ARGS=--render"
