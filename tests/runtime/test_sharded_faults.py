"""Tasks of Spark's fail when they have written segments: the epoch is done again, and their files do not count."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.audit import made_up
from tests.faults.segments import SIZE, FailingJob, SegmentApp


def test_an_epoch_whose_tasks_fail_after_their_files_is_done_again(spark, tmp_path: Path):
    app = SegmentApp(tmp_path / "app", made_up(2 * SIZE)[: 2 * SIZE], spark)
    app.epoch(0)
    app.store.shard_ids("events", 4, app.now)
    run, failures = app.shards._run, 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app.shards, "_run", lambda job: run(FailingJob(job, str(tmp_path))))  # type: ignore[arg-type]
        while app.done < 2:
            try:
                app.epoch(1)
            except Exception as error:
                assert "Fault" in str(error)
                failures += 1
    assert failures == 2, "tasks that judge ids, and tasks that step a view"
    assert app.files() > app.listed(), "they have left their files"
    app.check()
