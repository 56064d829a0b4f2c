"""The commands `audit` and `ask` on a stopped app, and the demo of a repair: each as a person runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import APP

pytestmark = pytest.mark.xdist_group("spark")
CORRUPT = (
    "import sqlite3, sys; s = sqlite3.connect(sys.argv[1]); s.execute('UPDATE __view_by_page SET n = 7'); s.commit()"
)


def penstock(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock.cli", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def test_an_audit_ends_with_1_over_what_is_wrong_and_history_is_asked(tmp_path):
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "in").mkdir()
    rows = [{"page": "home", "at": f"2024-05-01T12:00:{second:02}Z"} for second in (1, 2, 13, 40)]
    (tmp_path / "in" / "1.json").write_text("\n".join(map(json.dumps, rows)) + "\n")
    assert penstock(tmp_path, "run", "app.py", "--until-caught-up", "--no-serve").returncode == 0
    subprocess.run([sys.executable, "-c", CORRUPT, str(tmp_path / ".penstock" / "store.db")], check=True)
    told = penstock(tmp_path, "audit", "by_page", "--file", "app.py")
    assert told.returncode == 1, told.stdout + told.stderr
    assert "WRONG" in told.stdout
    assert "n is 7, and should be 2" in told.stdout
    assert '"page": "home"' in told.stdout  # an event behind it
    asked = penstock(
        tmp_path, "ask", "SELECT page, count(*) AS n FROM HISTORY(visits) GROUP BY page", "--format", "json"
    )
    assert json.loads(asked.stdout.splitlines()[-1]) == [{"page": "home", "n": 4}], asked.stderr
    assert penstock(tmp_path, "ask", "SELECT 1").returncode == 1


@pytest.mark.deep
def test_the_demo_repairs_a_view_while_events_flow(tmp_path):
    told = penstock(tmp_path, "demo", "repair", "--for", "8s", "--dir", "demo")
    assert told.returncode == 0, told.stdout + told.stderr
    assert "nothing stopped" in told.stdout
    assert "right" in told.stdout.splitlines()[-2]
