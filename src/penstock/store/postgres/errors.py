"""What PostgreSQL says, in our words: what is wrong, whether it passes, and what to do."""

from __future__ import annotations

from typing import Any, Final

from penstock.postgres import redact
from penstock.store.address import Address
from penstock.store.base import StoreError
from penstock.store.connection import Away, Busy, Full

#: The states of SQL that tell of a lost connection: the server is going down, starts, or is gone.
_LOST: Final = ("08", "57P01", "57P02", "57P03", "57P04", "57P05")
_LOST_SIGNS: Final = (
    "server closed the connection", "no connection to the server", "terminating connection", "connection refused",
    "connection not open", "could not receive data", "could not send data", "ssl connection has been closed",
    "ssl syscall error", "connection timed out", "timeout expired", "starting up", "shutting down", "in recovery mode",
    "could not translate host name", "no route to host", "network is unreachable", "connection reset", "broken pipe",
    "no such file or directory", "session is read-only", "not yet accepting connections", "lost synchronization",
)  # fmt: skip
_BUSY: Final = ("40001", "40P01", "55P03", "53300")
#: SQLSTATE codes, or messages without one → what is wrong, and what to do.
_EXPLAINED: Final = (
    (("53100", "53200"), "there is no room for the store '{where}'", "free some space, or allow it more"),
    (("25006",), "the store '{where}' cannot be written", "only queries are answered here"),
    (("57014",), "a query of the store '{where}' took too long", "ask for less, or name a window"),
    (
        ("28", "password authentication failed", "no password supplied", "does not exist\n", "pg_hba.conf"),
        "cannot open the store '{where}'",
        "check user, database and password: PGPASSWORD, ~/.pgpass, or the URL in PENSTOCK_STORE",
    ),
    (
        ("42501",),
        "the store '{where}' may not be used so by this user",
        "let the user create schemas in the database (GRANT CREATE ON DATABASE …), or make both schemas for it",
    ),
)


def is_lost(error: Exception) -> bool:
    """Whether an error tells that the connection is gone, or cannot be made now."""
    state = _state(error)
    if state:
        return state.startswith(_LOST)
    message = str(error).lower()
    return any(sign in message for sign in _LOST_SIGNS)


def explained(error: Exception, address: Address, writes: bool) -> StoreError:
    """The error in our words, with PostgreSQL's own as the detail."""
    where, state, error_text = address.shown, _state(error), redact(str(error), address.url)
    if is_lost(error) or (writes and state == "25006"):  # the former primary is a replica now
        return Away(
            f"the store '{where}' cannot be reached",
            detail=error_text.strip(),
            hint="start the server, or wait for it; what was committed is there",
        )
    if state in _BUSY:
        return Busy(f"the store '{where}' is busy with others", detail=error_text.strip(), hint="end what holds it")
    if state in ("23505", "23514") and "__view_" in error_text:
        return StoreError(
            f"a window that is final in the store '{where}' was to change",
            detail=error_text.strip(),
            hint="closed windows stay closed when the allowed lateness grows: drop the view to compute it again",
        )
    for signs, message, hint in _EXPLAINED:
        if any((state.startswith(sign) if state else sign in error_text) for sign in signs):
            kind = Full if "53100" in signs else StoreError
            return kind(message.format(where=where), detail=error_text.strip(), hint=hint)
    return StoreError(f"the store '{where}' refused a statement", detail=error_text.strip())


def _state(error: Any) -> str:
    return str(getattr(error, "sqlstate", None) or "")
