"""The files under deploy/: their commands exist, with the options that they use."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import pytest
import yaml

from penstock.cli.commands import loaded

DEPLOY = Path(__file__).parents[2] / "deploy"


def commands() -> list[list[str]]:
    """The arguments of `penstock` in the image, in the compose file and in the service."""
    image = re.search(r"^CMD (.*)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    service = re.search(r"^ExecStart=\S*/penstock (.*)$", (DEPLOY / "penstock@.service").read_text(), re.MULTILINE)
    assert image is not None
    assert service is not None
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"].values()
    return [json.loads(image[1]), service[1].split(), *(one["command"] for one in services if "build" in one)]


@pytest.mark.parametrize("arguments", commands(), ids=" ".join)
def test_a_command_exists_with_its_options(arguments: list[str]):
    name, *rest = arguments
    command = loaded(name)
    with command.make_context(name, list(rest)) as context:
        assert context.params["directory"] is not None


def test_the_image_has_the_files_that_it_copies():
    image = (DEPLOY / "Dockerfile").read_text()
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", image, re.MULTILINE)
    names = [name for line in copied for name in line.split() if not name.startswith("$")]
    assert names
    assert [name for name in names if not (DEPLOY.parent / name).exists()] == []
    sent = re.findall(r"^!(\S+)$", (DEPLOY / "Dockerfile.dockerignore").read_text(), re.MULTILINE)
    app = re.search(r"^ARG APP=(\w+)/", image, re.MULTILINE)
    assert app is not None
    assert {*names, app[1]} <= set(sent)


def test_the_function_that_the_image_calls_exists():
    called = re.search(
        r'^RUN python -c "from (\S+) import (\w+); \2\(\)"$', (DEPLOY / "Dockerfile").read_text(), re.MULTILINE
    )
    assert called is not None
    assert callable(getattr(importlib.import_module(called[1]), called[2]))
