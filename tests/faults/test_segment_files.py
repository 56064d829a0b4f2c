"""Files of segments that come late, go early or are read meanwhile: zombie tasks, sweeps, compaction, readers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext

from penstock.query.ask import Questions
from penstock.runtime.commit.stepper import COUNT_EVERY
from penstock.runtime.epoch.ids import IdShardJob
from penstock.runtime.epoch.shard_job import ShardJob
from penstock.state.ids import ShardedIds
from penstock.store import Reader
from penstock.store.sharded_view import ShardedView
from tests.faults.audit import made_up
from tests.faults.segments import QUERY, SIZE, Fault, FaultPoints, SegmentApp, task
from tests.faults.support import until

EPOCHS = 4
#: Steps at which an attempt has written files that it has not listed yet.
BEFORE_LISTED = {
    "a task has spooled its deltas",
    "an epoch: a file is written",
    "ids: a file is written",
    "before the commit",
    "compaction: a file is written",
    "before the list is replaced",
}


def events() -> list[dict[str, Any]]:
    return made_up(EPOCHS * SIZE)[: EPOCHS * SIZE]


def test_of_a_task_that_runs_twice_one_file_counts(tmp_path: Path):
    app = SegmentApp(tmp_path, events())

    def twice(job: Any, rows: Any) -> list[pa.RecordBatch]:
        list(job(rows))
        return list(job(rows))

    app.tasks.run = twice
    app.run()
    assert app.files() > app.listed(), "the first attempts have left their files"
    app.check()


@pytest.mark.parametrize("few_deltas", [0, 10_000], ids=["deltas in files", "deltas from the driver"])
def test_a_task_that_writes_its_file_after_the_commit_changes_nothing(few_deltas: int, tmp_path: Path):
    app = SegmentApp(tmp_path, events(), few_deltas=few_deltas)
    late: list[tuple[Any, int, list[pa.RecordBatch]]] = []

    def remembered(job: Any, rows: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        late.append((job, TaskContext.get().partitionId(), rows))
        return list(job(rows))

    app.tasks.run = remembered
    written = 0
    while app.done < EPOCHS:
        app.epoch(app.done)
        zombies, late[:] = list(late), []
        before = app.files()
        for job, number, rows in zombies:
            with task(number), suppress(FileNotFoundError):  # the deltas of its epoch are gone
                list(job(rows))
        written += len(app.files() - before)
        app.look_after()
    assert written, "some wrote files"
    assert {type(job) for job, *_ in zombies} >= {ShardJob, IdShardJob}
    app.check()


def test_a_sweep_leaves_the_files_of_attempts_that_run(tmp_path: Path):
    app = SegmentApp(tmp_path, events())
    swept: list[str] = []

    def reach(step: str) -> None:
        if step in BEFORE_LISTED:
            assert app.sweep() == 0, step
            swept.append(step)

    with pytest.MonkeyPatch.context() as patch:
        FaultPoints(patch, app, reach)
        app.run()
    assert set(swept) == BEFORE_LISTED, "each step came"
    app.check()


def test_a_merge_that_is_overtaken_by_another_leaves_the_list_as_it_is(tmp_path: Path):
    app = SegmentApp(tmp_path, events())
    overtaken: list[bool] = []

    def reach(step: str) -> None:
        if step == "before the list is replaced" and not overtaken:
            overtaken.append(True)
            app.keeper.compact()

    with pytest.MonkeyPatch.context() as patch:
        FaultPoints(patch, app, reach)
        app.run()
    assert overtaken
    app.check()


def test_no_other_thread_writes_until_memory_has_followed_a_transaction(tmp_path: Path):
    app = SegmentApp(tmp_path, events())
    free: list[bool] = []

    def try_to_write() -> None:
        free.append(app.store._mutex.acquire(blocking=False))
        if free[-1]:
            app.store._mutex.release()

    def watched(inner: Callable[..., Any]) -> Callable[..., Any]:
        def outer(*arguments: Any) -> Any:
            other = threading.Thread(target=try_to_write)
            other.start()
            other.join()
            return inner(*arguments)

        return outer

    with pytest.MonkeyPatch.context() as patch:
        for owner in (ShardedView, ShardedIds):
            patch.setattr(owner, "changed", watched(owner.changed))
        app.run()
    assert free
    assert not any(free)
    app.check()


def test_an_epoch_counts_when_the_move_after_its_commit_fails(tmp_path: Path):
    app = SegmentApp(tmp_path, events())
    for number in range(3):
        app.epoch(number)
    tracker = app.engine.registry.trackers["events"]
    while app.store.last().number % COUNT_EVERY != COUNT_EVERY - 1:  # type: ignore[union-attr]
        app.engine.tick(app.now, {"events": tracker.watermark})
    failed: list[str] = []

    def fail(stream: str, *_: object) -> None:
        failed.append(stream)
        raise Fault("the disk is full")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app.store.known_ids, "shard", fail)
        app.epoch(3)
    assert failed == ["events"]
    assert app.store.trackers()["events"] == json.loads(json.dumps(tracker.snapshot())), "time is that of the commit"
    app.run()
    app.check()


def test_a_view_whose_move_fails_moves_before_the_next_step(tmp_path: Path):
    app = SegmentApp(tmp_path, events())
    failed: set[str] = set()

    def fail(view: str, *_: object) -> None:
        failed.add(view)
        raise Fault("the disk is full")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app.store, "shard", fail)
        while not failed:
            app.epoch(app.done)
    assert not failed & set(app.store.sharded_names())
    app.epoch(app.done)
    assert failed <= set(app.store.sharded_names())
    app.run()
    app.check()


def test_a_reader_sees_one_commit_while_epochs_merges_and_removals_go_on(tmp_path: Path):
    app = SegmentApp(tmp_path, events())
    app.epoch(0)
    answers: list[tuple[int, int, int, int, int]] = []
    problems: list[BaseException] = []
    stop = threading.Event()

    def read() -> None:
        reader = Reader(tmp_path)
        questions = Questions(reader, own_tables=True)
        try:
            while not stop.is_set():
                answer = questions.ask(
                    "SELECT (SELECT n FROM total) AS total, (SELECT sum(n) FROM by_id) AS by_id, "
                    "(SELECT sum(n) FROM counts) AS counts, "
                    "(SELECT count(*) FROM __refused WHERE kind = 'late' AND view = 'counts') AS late"
                )
                row = answer.table.to_pylist()[0]
                answers.append((answer.commit, row["total"], row["by_id"], row["counts"], row["late"]))
        except BaseException as error:
            problems.append(error)
        finally:
            reader.close()

    def is_read() -> bool:
        return bool(problems) or (bool(answers) and answers[-1][0] >= app.store.last().number)  # type: ignore[union-attr]

    thread = threading.Thread(target=read)
    thread.start()
    try:
        while app.done < EPOCHS:
            app.epoch(app.done)
            app.shards.move_ids("events", app.now)
            app.keeper.compact()
            app.remove_replaced()
            until(is_read)
    finally:
        stop.set()
        thread.join()
    assert not problems
    epochs = dict(app.store.query("SELECT number, epoch FROM __commits WHERE query = ?1", [QUERY]).rows())
    for commit, total, by_id, counts, late in answers:
        ids = {row["id"] for row in app.rows[: (epochs[commit] + 1) * SIZE]}
        assert total == by_id == counts + late == len(ids), commit
    assert len({commit for commit, *_ in answers}) >= EPOCHS - 1
    app.check()
