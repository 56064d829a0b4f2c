"""The commands that documents show: `penstock` understands each of them, and `make` has those that it is asked for."""

from __future__ import annotations

import re
import shlex
from itertools import takewhile
from pathlib import Path

import pytest

from penstock.cli.commands import COMMANDS, loaded
from penstock.store import SqliteStore

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("deploy/*.md"), *ROOT.glob("examples/**/README.md")]
)
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
SHELL = ("", "console", "bash", "sh")
#: A line that a reader types, with or without a prompt, and with variables of the environment before it.
TYPED = re.compile(
    r"^(?:\$ )?(?:[A-Z_]+=\S* )*(?:\.venv/bin/)?penstock(?: (?:[^'\"\n]|'[^']*'|\"[^\"]*\")*)?$", re.MULTILINE
)
#: A SELECT from the store's own tables, in text.
QUESTION = re.compile(r"(?<!`)(?:``|`)(SELECT (?:[^\n](?!``))*? FROM __\w+[^`\n…]*)`{1,2}(?!`)")
INLINE = re.compile(r"`(penstock [^`…\[]+)`")
#: What ends a command: a comment, a pipe, a redirection.
END = {"#", "|", "||", ">", ">>", "<", "&", "&&", "2>"}


def commands(page: Path) -> list[list[str]]:
    """The arguments of each command of a page, in examples and in text, without what follows a pipe or a comment."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = [block for language, block in FENCED.findall(text) if language in SHELL]
    lines = [line.removeprefix("$ ") for block in blocks for line in TYPED.findall(block)]
    lines += INLINE.findall(re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))
    words = [[*takewhile(lambda word: word not in END, shlex.split(line))] for line in lines]
    return [line[[word.endswith("penstock") for word in line].index(True) + 1 :] for line in words]


def shown() -> list[tuple[str, list[str]]]:
    return [(str(page.relative_to(ROOT)), arguments) for page in PAGES for arguments in commands(page)]


@pytest.mark.parametrize(("page", "arguments"), [pytest.param(*case, id=" ".join(case[1])) for case in shown()])
def test_a_command_of_a_page_is_understood(page: str, arguments: list[str]) -> None:
    if arguments in ([], ["--version"], ["--help"]):
        return
    name, *rest = arguments
    assert name in COMMANDS, f"{page}: penstock has no command {name!r}"
    command = loaded(name)
    while rest and rest[0] in getattr(command, "commands", {}):
        command, rest = command.commands[rest[0]], rest[1:]
    if rest == [word for word in rest if word.startswith("--")]:  # text may speak of a command without its arguments
        known = {option for parameter in command.params for option in parameter.opts}
        assert {*rest} <= known, page
    else:
        with command.make_context(name, rest):
            pass


def test_the_questions_of_pages_to_the_tables_of_a_store_are_answered(tmp_path: Path) -> None:
    SqliteStore.open(tmp_path).close()
    asked = {arguments[1] for _, arguments in shown() if arguments[:1] == ["query"] and "__" in " ".join(arguments[1:])}
    questions = asked | {text for page in PAGES for text in QUESTION.findall(page.read_text(encoding="utf-8"))}
    assert len(questions) > 3
    for question in questions:
        assert '"' not in question, f"a name in double quotes is a text: {question}"
        loaded("query").main([question, "--dir", str(tmp_path)], standalone_mode=False)


def test_pages_show_commands_at_all() -> None:
    assert len(shown()) > 150


def test_what_a_page_asks_make_for_exists() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    asked = {name for page in PAGES for name in re.findall(r"`make (\w+)", page.read_text(encoding="utf-8"))}
    assert asked - targets == set()
