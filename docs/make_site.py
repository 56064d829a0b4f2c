"""What MkDocs calls to make the site of these pages: `make site`.

The pages are also read in the repository, where links lead to tests and code. On the site such a link becomes the path.
The page of the command line is made from the commands themselves, that of contributing from `CONTRIBUTING.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
_OUTSIDE = re.compile(r"\[([^\[\]]+)\]\((\.\./[^)\s]+)\)")
_PICTURE = re.compile(r"!\[([^\[\]]*)\]\((\.\./[^)\s]+)\)")


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that are made from something else."""
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").replace("](docs/", "](")
    inside = re.sub(r"\]\((?!https?:|#)((?:src|tests|bench|examples)/[^)]*)\)", r"](../\1)", contributing)
    files.append(File.generated(config, "contribute.md", content=inside))
    files.append(File.generated(config, "cli.md", content="\n".join(command_line())))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The text of a page as the site shows it."""
    pictures = _PICTURE.sub(r"*\1* (`\2`)", markdown)
    outside = _OUTSIDE.sub(lambda match: f"{match[1]} (`{match[2].removeprefix('../')}`)", pictures)
    return "\n".join(fenced(outside.splitlines()))


def fenced(lines: list[str]) -> Iterator[str]:
    """Puts fences around examples that have none, from `>>>` to the next empty line."""
    in_fence = in_example = False
    for line in lines:
        if line.startswith("```"):
            in_fence = not in_fence
        elif not in_fence and not in_example and line.startswith(">>> "):
            yield "```pycon"
            in_example = True
        elif in_example and not line.strip():
            yield "```"
            in_example = False
        yield line
    if in_example:
        yield "```"


def command_line() -> Iterator[str]:
    """All commands with their arguments and options."""
    from penstock.cli.commands import COMMANDS, loaded

    yield "# Command line\n"
    yield "Every command has `--help`. Exit codes: 0 success, 1 failure, 2 a command that is not understood."
    yield "\n| command | what it does |\n|---|---|"
    for name, entry in COMMANDS.items():
        yield f"| [`penstock {name}`](#penstock-{name}) | {entry.summary} |"
    for name in COMMANDS:
        yield from described(f"penstock {name}", loaded(name), 2)


def described(name: str, command: Any, level: int) -> Iterator[str]:
    """A command with its options, or a group with its commands."""
    yield f"\n{'#' * level} `{name}` {{ #{name.replace(' ', '-')} }}\n"
    for paragraph in (command.help or "").split("\n\n"):
        yield " ".join(line.strip() for line in paragraph.splitlines()) + "\n"
    if parts := getattr(command, "commands", None):
        for part, inner in parts.items():
            yield from described(f"{name} {part}", inner, level + 1)
        return
    rows = [row for parameter in command.params if (row := line_of(parameter))]
    if rows:
        yield "| argument or option | default | meaning |\n|---|---|---|"
        yield from rows


def line_of(parameter: Any) -> str | None:
    """A row of the table of arguments and options."""
    if parameter.name == "help" or getattr(parameter, "hidden", False):
        return None
    if parameter.param_type_name == "argument":
        shown = parameter.metavar or parameter.name.upper()
    else:
        value = "" if parameter.is_flag else parameter.metavar or parameter.name.upper()
        shown = f"{', '.join([*parameter.opts, *parameter.secondary_opts])} {value}".strip()
    has_default = parameter.default not in (None, False, ...) and not callable(parameter.default)
    default = f"`{getattr(parameter.default, 'value', parameter.default)}`" if has_default else ""
    default = "required" if parameter.required else default
    meaning = " ".join((parameter.help or "").split())
    return f"| `{shown}` | {default} | {meaning} |"
