"""The error that ends a run."""

from __future__ import annotations

import re

from penstock.errors import PenstockError


class RunError(PenstockError):
    """The app cannot go on; the message says why and what to do."""


def failed(stream: str, error: BaseException) -> BaseException:
    """The error of a failed epoch for its user: our own errors as they are, also from a task; Spark's in one line."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    if not isinstance(error, (PySparkException, Py4JError)):
        return error
    ours = re.search(r"penstock\.[\w.]*Error: ([^\n]*)(?:\n\s+detail: ([^\n]*))?(?:\n\s+hint: ([^\n]*))?", str(error))
    if ours is not None:
        return RunError(f"the stream '{stream}' has failed: {ours[1]}", detail=ours[2], hint=ours[3])
    lacking = re.search(r"ModuleNotFoundError: No module named '([\w.]+)'", str(error))
    if lacking is not None:
        return RunError(
            f"the stream '{stream}' has failed: the Python of Spark's tasks has no module '{lacking[1]}'",
            detail=essence(error),
            hint="install it there (what Penstock itself needs: pip install penstock), or name another Python: "
            "--executor-python",
        )
    return RunError(f"the stream '{stream}' has failed: {essence(error)}", detail=str(error)[:2000])


def essence(error: BaseException) -> str:
    """The essential line of an error: Spark's own message, or the last line of a Python traceback.

    >>> essence(ValueError("[DIVIDE_BY_ZERO] Division by zero. Use `try_divide`. SQLSTATE: 22012\\n== SQL ==\\n1/0"))
    'Division by zero'
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if any(line.startswith("Traceback (most recent call last)") for line in lines):
        return lines[-1][:_LONGEST]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    first = causes[-1] if causes else lines[0] if lines else type(error).__name__
    if first.startswith("[") and "] " in first:
        first = first.partition("] ")[2]
    for rest in (" SQLSTATE: ", " Use `try_", " Correct the value"):
        first = first.partition(rest)[0]
    return first.removesuffix(".")[:_LONGEST]


_LONGEST = 500
