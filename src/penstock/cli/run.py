"""The command `run`: an app of a file, on Spark, with its progress.

Java starts before anything else is loaded, and both go on side by side.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.early import EarlyJava
from penstock.cli.options import (
    DIRECTORY,
    AppName,
    Debug,
    Directory,
    Long,
    Master,
    NoServe,
    NoTokens,
    Port,
    errors_shown,
    not_negative,
    output,
)  # fmt: skip
from penstock.cli.options import seconds as seconds_of
from penstock.cli.restart import end_like, keep_running
from penstock.runtime.phases import LOADING, Phases
from penstock.runtime.spark.secure import SECRET_FILE


def run(
    file: Annotated[
        Path | None,
        typer.Argument(help="A file that defines an app: Python with a ps.App, or SQL.", metavar="[APP]"),
    ] = None,
    directory: Directory = DIRECTORY,
    seconds: Long = None,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="Stop when everything that the sources hold now is committed.")
    ] = False,
    drain: Annotated[
        bool,
        typer.Option(
            "--drain",
            help="With --until-caught-up: close all open windows at the end, so that the last ones fire too.",
        ),
    ] = False,
    master: Master = "local[*]",
    app: AppName = None,
    kafka: Annotated[
        bool, typer.Option("--kafka", help="Allow streams from Kafka to be added later, by CREATE STREAM in a shell.")
    ] = False,
    conf: Annotated[
        list[str] | None, typer.Option("--conf", help="A Spark setting; can be repeated.", metavar="KEY=VALUE")
    ] = None,
    executor_python: Annotated[
        str | None, typer.Option("--executor-python", help="The Python of a cluster's executors.", metavar="PATH")
    ] = None,
    cluster_secret: Annotated[
        Path | None,
        typer.Option("--cluster-secret", help="A file with the secret of a standalone cluster.", metavar="FILE"),
    ] = None,
    insecure_cluster: Annotated[
        bool,
        typer.Option("--insecure-cluster", help="Do not authenticate or encrypt traffic between Spark's processes."),
    ] = False,
    checkpoints: Annotated[
        str | None,
        typer.Option(
            "--checkpoints", help="Directory or URL of Spark's checkpoints. Default: in --dir.", metavar="URL"
        ),
    ] = None,
    history: Annotated[
        str | None,
        typer.Option("--history", help="Where the history goes, if not into --dir.", metavar="URL"),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            help="Store in PostgreSQL: postgresql://user@host/database. Default: PENSTOCK_STORE, or a file in --dir.",
            metavar="URL",
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option("--group", help="Unix group that may read --dir. Default: only you.", metavar="NAME"),
    ] = None,
    standby: Annotated[
        bool, typer.Option("--standby", help="Wait until the app that runs in --dir ends or hangs, then take over.")
    ] = False,
    takeover_after: Annotated[
        float | None,
        typer.Option(
            "--takeover-after",
            help="How long the running app may be silent before takeover, for example 10s.",
            parser=seconds_of,
            metavar="DURATION",
        ),
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Restart the app when its process is killed or fails.")
    ] = False,
    apply: Annotated[
        bool, typer.Option("--apply", help="If the file has changed, apply it first, as penstock apply does.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --apply: do it even if state is lost.")] = False,
    target: Annotated[
        float | None,
        typer.Option(
            "--target",
            help="Longest time an epoch may take, for example 2s. 0s: no limit.",
            parser=not_negative,
            metavar="DURATION",
        ),
    ] = None,
    grace: Annotated[
        float | None,
        typer.Option(
            "--grace",
            help="How long to keep history files that compaction has replaced. Default: 10m.",
            parser=not_negative,
            metavar="DURATION",
        ),
    ] = None,
    port: Port = None,
    no_serve: NoServe = False,
    no_tokens: NoTokens = False,
    debug: Debug = False,
) -> None:
    """Run an app until Ctrl-C. A restarted app resumes where it stopped.

    Without a file, run what was created in a shell: penstock sql.
    """
    console = output()
    if drain and not until_caught_up:
        raise typer.BadParameter("--drain closes the windows when all is read: pass --until-caught-up too")
    if apply and file is None:
        raise typer.BadParameter("--apply needs the file of the app")
    if restart:
        command = [sys.executable, *(part for part in sys.orig_argv[1:] if part != "--restart")]
        end_like(keep_running(command, lambda text: console.print(text, markup=False)))
    options = _trust(cluster_secret, insecure_cluster) | settings(conf or [])
    phases = Phases()
    phases.begin(LOADING, 0.0)
    early = EarlyJava(directory, master, options, group=group, debug=debug)
    with errors_shown(debug), early.begun(file, executor_python) as java:
        # A standby has time, and warms its session up.
        spark = None if java is None or standby else early.session(java, file, app, phases)
        from penstock.cli.running import AppliesFirst, AppRun
        from penstock.cli.serve import Serve
        from penstock.store import Standby

        app_run = AppRun(
            file, app, directory, debug, Serve(port, no_serve, no_tokens),
            {
                "master": master, "conf": options, "kafka": kafka, "executor_python": executor_python,
                "checkpoints": checkpoints, "history_at": history, "store": store, "group": group,
                "grace": "10 minutes" if grace is None else timedelta(seconds=grace),
                "target": "2 seconds" if target is None else timedelta(seconds=target) or None,
                "standby": standby and Standby(takeover_after or 10.0, lambda text: console.print(text, markup=False)),
            },
            {"seconds": seconds, "until_caught_up": until_caught_up, "drain": drain},
            AppliesFirst(apply, yes),
        )  # fmt: skip
        app_run.run(console, phases, java, spark)


def _trust(secret: Path | None, insecure: bool) -> dict[str, str]:
    """The options for the secret of a cluster, as settings of Spark."""
    if secret is not None and insecure:
        raise typer.BadParameter("--cluster-secret and --insecure-cluster contradict each other")
    if insecure:
        return {"spark.authenticate": "false"}
    return {} if secret is None else {SECRET_FILE: str(secret)}


def settings(options: Sequence[str]) -> dict[str, str]:
    """Spark's settings from the command line.

    >>> settings(["spark.cores.max=4", "spark.executor.extraJavaOptions=-Da=b"])
    {'spark.cores.max': '4', 'spark.executor.extraJavaOptions': '-Da=b'}
    """
    pairs = [text.partition("=") for text in options]
    for (name, sign, _), text in zip(pairs, options, strict=True):
        if not sign or not name.startswith("spark."):
            raise typer.BadParameter(f"not a setting of Spark's: '{text}'; write spark.executor.memory=2g")
    return {name: value for name, _, value in pairs}
