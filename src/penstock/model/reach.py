"""Refuses triggers with a part that can never fire or never have its turn.

Allowed lateness is not judged: a view may say it after its trigger.
"""

from __future__ import annotations

from penstock.errors import DefinitionError
from penstock.model.triggers import (
    AfterCount,
    AllOf,
    AnyOf,
    Every,
    InTurn,
    Never,
    OnClose,
    OnTime,
    OrFinally,
    Repeatedly,
    Trigger,
)
from penstock.model.windows.base import CountBased, Window


def check_reach(trigger: Trigger, window: Window) -> None:
    """Refuses the trigger if one of its parts cannot be reached in such windows."""
    for part in trigger.parts:
        check_reach(part, window)
    match trigger:
        case InTurn():
            for part, following in zip(trigger.parts, trigger.parts[1:], strict=False):
                if never_finishes(part):
                    reason, hint = "never finishes", "put it last, or end it with .or_finally(…)"
                elif finishes_at_close(part, window):
                    reason, hint = "finishes only when the window closes", "put it last"
                else:
                    continue
                raise DefinitionError(
                    f"{following!r} is never reached: {part!r} comes before it in turn, and {reason}", hint=hint
                )
        case OrFinally() if trigger.last == Never():
            raise DefinitionError(
                f"{trigger!r} never ends: its last trigger never fires", hint=f"write only {trigger.part!r}"
            )
        case OnTime():
            if trigger.early != Never() and waits_for_end(trigger.early):
                raise DefinitionError(
                    f"early={trigger.early!r} never fires: it waits until the window is complete",
                    hint="leave it out",
                )
            if isinstance(window, CountBased) and trigger.late not in (Never(), AfterCount(1)):
                raise DefinitionError(
                    f"late={trigger.late!r} never fires: {window!r} closes as soon as it is full",
                    hint="leave it out",
                )


def never_finishes(trigger: Trigger) -> bool:
    """Whether it goes on for as long as the window is open."""
    match trigger:
        case Every() | Never() | Repeatedly():
            return True
        case OnTime():
            return trigger.late != Never()
        case AnyOf():
            return all(never_finishes(part) for part in trigger.parts)
        case AllOf():
            return any(never_finishes(part) for part in trigger.parts)
        case InTurn():
            return never_finishes(trigger.parts[-1])
    return False


def finishes_at_close(trigger: Trigger, window: Window) -> bool:
    """Whether it can finish only in the commit that closes the window: nothing fires after that."""
    match trigger:
        case OnClose():
            return True
        case OnTime():
            return trigger.late == Never() and isinstance(window, CountBased)
        case AnyOf():
            return all(never_finishes(part) or finishes_at_close(part, window) for part in trigger.parts)
        case AllOf() | InTurn():
            return any(finishes_at_close(part, window) for part in trigger.parts)
        case OrFinally():
            ends = never_finishes(trigger.part) or finishes_at_close(trigger.part, window)
            return ends and trigger.last == OnClose()
    return False


def waits_for_end(trigger: Trigger) -> bool:
    """Whether it cannot fire before the window is complete."""
    match trigger:
        case OnClose() | Never():
            return True
        case OnTime():
            return waits_for_end(trigger.early)
        case AllOf():
            return any(waits_for_end(part) for part in trigger.parts)
        case InTurn():
            return waits_for_end(trigger.parts[0])
        case AnyOf() | Repeatedly() | OrFinally():
            return all(waits_for_end(part) for part in trigger.parts)
    return False
