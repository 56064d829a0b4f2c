"""What goes wrong while a view runs fails its own test of a script, by name, and the other tests go on."""

from __future__ import annotations

import pytest

from penstock.errors import PenstockError
from penstock.kernel.local import LocalKernel
from penstock.model.view import View
from penstock.scripts import Play, Script

SCRIPT = """
    CREATE STREAM s (k STRING, v INT);
    CREATE CONTINUOUS VIEW good AS SELECT k, count(*) AS n FROM s GROUP BY k;
    CREATE CONTINUOUS VIEW bad AS SELECT k, sum(v + 1) AS total FROM s GROUP BY k;
    INSERT INTO s VALUES ('a', 1);
    TEST 'of the bad one'; ASSERT bad (k) EQUALS ('a');
    TEST 'of the good one'; ASSERT good (k, n) EQUALS ('a', 1);
"""


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError("the disk is gone\nat line 7"), ["OSError: the disk is gone\n", "its expressions are 'k', 'v + 1'"]),
        (ValueError("a value"), ["ValueError: a value", "'v + 1'"]),
        (PenstockError("an epoch failed", detail="why", hint="what to do"), ["an epoch failed", "why", "what to do"]),
    ],
)
def test_a_runtime_error_fails_its_own_test_and_names_view_and_expressions(error, says, monkeypatch):
    class Failing(LocalKernel):
        def commit(self, commit):
            raise error

    def start(play: Play, view: View) -> LocalKernel:
        return Failing(view) if view.name == "bad" else LocalKernel(view)

    monkeypatch.setattr(Play, "start", start)
    tests = Script.of(SCRIPT).run().tests
    assert tests["of the good one"] is None
    message = str(tests["of the bad one"])
    assert "the view 'bad' fails: " in message
    assert "cannot understand" not in message
    assert all(part in message for part in says), message


def test_a_count_over_no_rows_is_zero_and_not_no_row():
    report = Script.of(
        """CREATE STREAM s (k STRING, v INT);
        CREATE CONTINUOUS VIEW total AS SELECT count(*) AS n, sum(v) AS v FROM s;
        CREATE CONTINUOUS VIEW some AS SELECT count(*) AS n FROM s WHERE v > 5;
        CREATE CONTINUOUS VIEW by_key AS SELECT k, count(*) AS n FROM s GROUP BY k;
        ASSERT total (n, v) EQUALS (0, NULL);
        ASSERT (SELECT n, v FROM total) EQUALS (0, NULL);
        ASSERT (SELECT count(*) FROM total) EQUALS (1);
        ASSERT PANES OF total IS EMPTY;
        ASSERT by_key IS EMPTY;
        INSERT INTO s VALUES ('a', 1);
        ASSERT total (n, v) EQUALS (1, 1);
        ASSERT PANES OF total (n, index) EQUALS (1, 0);
        ASSERT some (n) EQUALS (0);
        ASSERT PANES OF some IS EMPTY"""
    )
    for engine in ("reference", "kernel"):
        assert report.run(engine).passed, report.run(engine).tests
