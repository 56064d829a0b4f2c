"""The shell of `penstock sql`: a line editor with history and completion around a session."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.shortcuts import CompleteStyle
from pygments.lexers.sql import SqlLexer

from penstock.cli.options import show_error
from penstock.cli.session import Session
from penstock.cli.sql import is_complete
from penstock.control import NoApp, tables
from penstock.errors import PenstockError

HELP = r"""Statements end with a semicolon. SELECT and SUBSCRIBE read the store; all others need a running app.
  \d [name]          what there is; the columns of one
  \watch [seconds]   repeats the last SELECT until Ctrl-C
  \timing            shows how long answers take, or no longer
  \?                 this
  \q                 ends, as Ctrl-D does"""

_WORDS = """SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT JOIN ON AS AND OR NOT IN BETWEEN LIKE IS NULL COUNT SUM AVG
MIN MAX DISTINCT CREATE REPLACE CONTINUOUS VIEW STREAM SINK DROP EXISTS ACTIVATE DEACTIVATE SUBSCRIBE TO WITH SNAPSHOT
PROGRESS SHOW VIEWS STREAMS SINKS DESCRIBE EXPLAIN INSERT INTO VALUES EMIT CHANGES FINAL EARLY LATE EVERY AFTER ROWS
TIME RETRACTING ACCUMULATING DISCARDING ALLOWED LATENESS TUMBLE HOP SESSION CUMULATE CALENDAR COUNT_WINDOW WATERMARK
FOR FILES KAFKA GENERATOR INTERVAL SECONDS MINUTES HOURS DAYS ALL"""
WORDS = _WORDS.split()


class Shell:
    """Reads statements and commands until the end."""

    def __init__(self, session: Session, debug: bool) -> None:
        self._session, self._debug = session, debug
        self._commands: dict[str, Callable[[str], None]] = {
            "\\?": self._help, "\\d": self._describe, "\\watch": self._watch, "\\timing": self._timing,
        }  # fmt: skip
        self._prompt: PromptSession[str] = PromptSession(
            history=_history(),
            completer=Names(session, sorted(self._commands)),
            complete_style=CompleteStyle.READLINE_LIKE,
            complete_while_typing=False,
            lexer=PygmentsLexer(SqlLexer),
            multiline=True,
            reserve_space_for_menu=0,
            prompt_continuation=lambda width, number, soft: "… ".rjust(width),
            key_bindings=_keys(),
        )

    def loop(self) -> None:
        """Until \\q or Ctrl-D."""
        console = self._session.console
        app = "an app runs" if self._session.client.is_there else "no app runs: SELECT and SUBSCRIBE only"
        console.print(f"Penstock in {self._session.reader.directory}: {app}. \\? for help", highlight=False)
        while True:
            try:
                text = self._prompt.prompt("penstock> ").strip()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            if text in ("\\q", "exit", "quit", "exit;", "quit;"):
                return
            self._do(text)

    def _do(self, text: str) -> None:
        """One statement or command; whatever goes wrong, the shell goes on."""
        try:
            if text.startswith("\\"):
                word, _, rest = text.partition(" ")
                if word not in self._commands:
                    raise PenstockError(f"unknown command '{word}'", hint="\\? lists them")
                self._commands[word](rest.strip().rstrip(";").strip())
            elif text:
                self._session.text(text)
        except KeyboardInterrupt:
            self._session.client.close()  # an answer that nobody waits for must not be taken for the next one
            self._session.console.print("interrupted")
        except PenstockError as error:
            show_error(error)
        except Exception as error:
            if self._debug:
                raise
            show_error(PenstockError(f"{type(error).__name__}: {error}", hint="--debug shows the stack"))

    # commands

    def _help(self, rest: str) -> None:
        self._session.console.print(HELP, markup=False)

    def _timing(self, rest: str) -> None:
        printer = self._session.printer
        printer.timing = not printer.timing
        printer.message(f"timing is {'on' if printer.timing else 'off'}")

    def _describe(self, rest: str) -> None:
        if rest:
            self._session.text(f"DESCRIBE {rest}")
            return
        self._session.text("SHOW VIEWS")
        if self._session.client.is_there:
            self._session.text("SHOW STREAMS; SHOW SINKS")

    def _watch(self, rest: str) -> None:
        last, console = self._session.last, self._session.console
        if last is None:
            raise PenstockError("there is no SELECT to repeat", hint="run one first")
        try:
            seconds = float(rest or 2)
        except ValueError:
            raise PenstockError(f"'{rest}' is not a number of seconds", hint="\\watch 2") from None
        try:
            while True:
                console.print(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}", style="dim")
                self._session.run(last)
                time.sleep(max(0.1, seconds))
        except KeyboardInterrupt:
            return


class Names(Completer):
    """Completes words of the language, commands, and the names that there are."""

    def __init__(self, session: Session, commands: Iterable[str]) -> None:
        self._session, self._commands = session, [*commands, "\\q"]

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        if before.startswith("\\") and " " not in before:
            matches = [word for word in self._commands if word.startswith(before)]
            return [Completion(word, -len(before)) for word in matches]
        typed = document.get_word_before_cursor()
        if not typed.strip():
            return []
        words = WORDS if typed.isupper() else [word.lower() for word in WORDS]
        known = [*self._names(), *words]
        chosen = dict.fromkeys(word for word in known if word.lower().startswith(typed.lower()))
        return [Completion(word, -len(typed)) for word in chosen]

    def _names(self) -> list[str]:
        """Views, their columns, and streams if an app runs."""
        names: list[str] = []
        try:
            for view, columns in tables(self._session.reader).items():
                names += [view, *columns]
            names += [str(row[0]) for row in self._session.client.ask("SHOW STREAMS").rows]
        except NoApp:
            return names
        except PenstockError:
            return names  # no store yet
        return names


def _history() -> History:
    """What was typed before, in the user's directory for such things."""
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "penstock"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (folder / "history").touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(folder / "history"))


def _keys() -> KeyBindings:
    """Enter ends a statement that has its semicolon, and a command; in others it begins a new line."""
    keys = KeyBindings()

    @Condition
    def ends() -> bool:
        from prompt_toolkit.application.current import get_app

        text = get_app().current_buffer.text.strip()
        return not text or text.startswith("\\") or text in ("exit", "quit") or is_complete(text)

    @keys.add("enter", filter=ends)
    def accept(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    return keys
