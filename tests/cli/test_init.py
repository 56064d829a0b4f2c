"""`penstock init`: what it writes is an app that loads, and whose test passes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from typer.testing import Result

from penstock.cli.load import load_app

Penstock = Callable[..., Result]


def test_a_new_app_loads_and_its_test_passes(penstock: Penstock, tmp_path: Path):
    target = tmp_path / "my-shop"
    result = penstock("init", target)
    assert result.exit_code == 0, result.output
    assert "penstock run app.py" in result.output
    app = load_app(target / "app.py")
    assert (app.name, list(app.views)) == ("my_shop", ["sales"])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_app.py"]
    tested = subprocess.run(command, cwd=target, capture_output=True, text=True)
    assert tested.returncode == 0, tested.stdout
    assert len((target / "orders" / "2024-05-01.json").read_text().splitlines()) == 18


def test_files_that_are_there_stay(penstock: Penstock, tmp_path: Path):
    (tmp_path / "app.py").write_text("mine")
    result = penstock("init", tmp_path)
    assert result.exit_code == 1
    assert "has a file 'app.py' already" in result.output
    assert (tmp_path / "app.py").read_text() == "mine"
    assert not (tmp_path / "README.md").exists()
