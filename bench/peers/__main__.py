"""Compares Penstock with what people would pick instead: `make peers ARGS=--quick`, or `python -m bench.peers`.

All run the same job on the same files, taking turns, each in processes of its own. A run counts if its answer equals
DuckDB's. Results are kept in `bench/results/peers`, one file for each workload; the tables and charts are written from
these files, so that workloads may be measured one by one: `--only yahoo`.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench.peers import answers, chart, inputs, latency, pages, recovery, results, topics
from bench.peers.contender import CONTENDERS, ROOT, Contender
from bench.peers.latency import Latency
from bench.peers.process import JobFailed, Taken, run
from bench.peers.recovery import Recovery
from bench.peers.results import Measured, Result
from bench.peers.topics import Log
from bench.peers.workloads import QUICK, WORKLOADS, Workload

RESULTS = ROOT / "bench" / "results" / "peers"
PAGE = RESULTS.with_suffix(".md")
IMAGES = ROOT / "docs" / "images"
#: Contenders, files of the long runs, rounds, and seconds that a run may take.
QUICK_CONTENDERS, QUICK_FILES, QUICK_ROUNDS, QUICK_LIMIT = (
    ("penstock", "spark", "flink_sql", "bytewax", "duckdb"),
    5,
    2,
    60,
)
#: The events of the run that does not count.
WARM = 5000
ROUNDS, LIMIT = 3, 300


def main() -> None:
    options = parsed()
    if not options.render:
        work = options.work.resolve()
        ready, begun, failed = installed(options.contenders, work), time.monotonic(), []
        if options.latency:
            measure_latency(ready, options, work)
        if options.recovery:
            measure_recovery(ready, options, work)
        if options.latency or options.recovery:
            options.only = []
        for place, name in enumerate(options.only, 1):
            passed = (time.monotonic() - begun) / 60
            print(f"{name}: {place} of {len(options.only)}, after {passed:.0f} minutes", file=sys.stderr, flush=True)
            try:
                measure(WORKLOADS[name], ready, options, work)
                write_pages(options.results)
            except Exception:  # the other workloads are measured all the same
                traceback.print_exc()
                failed.append(name)
        if failed:
            raise SystemExit(f"not measured: {', '.join(failed)}")
    for path in write_pages(options.results):
        print(f"written: {path}")


def write_pages(folder: Path) -> list[Path]:
    """Writes the page and the charts of the results in a folder."""
    known = results.read(folder)
    pages_of = rendered([known[name] for name in WORKLOADS if name in known], folder)
    for path, content in pages_of.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return list(pages_of)


def rendered(ordered: list[Result], folder: Path) -> dict[Path, str]:
    """The page and the charts. Those of the record are where the docs show them."""
    images = IMAGES if folder == RESULTS else folder
    further = [
        *latency.section(latency.read(beside(folder, "latency"))), "",
        *recovery.section(recovery.read(beside(folder, "recovery"))),
    ]  # fmt: skip
    return {
        folder.with_suffix(".md"): pages.page(ordered, further),
        **{images / f"peers-{name}.svg": picture for name, picture in chart.all_of(ordered).items()},
    }


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make peers", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="four contenders, three workloads; within 15 minutes")
    size.add_argument("--full", action="store_true", help="all of them, for the record: the default")
    parser.add_argument("--only", action="append", choices=list(WORKLOADS), help="a workload; can be repeated")
    parser.add_argument("--contenders", help="names with commas: " + ", ".join(CONTENDERS))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--limit", type=float, help="seconds that a run may take; 300, or 60 with --quick")
    parser.add_argument("--files", type=int, help="files of the long runs, of 250,000 events each")
    parser.add_argument("--events", type=int, default=inputs.PER_FILE, help="events of a file, to try things")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "peers", help="for environments and inputs")
    parser.add_argument("--results", type=Path, help="default: bench/results/peers; with --quick, below --work")
    parser.add_argument("--latency", action="store_true", help="the latency of Yahoo from Kafka, and nothing else")
    parser.add_argument("--recovery", action="store_true", help="Yahoo from Kafka after a kill, and nothing else")
    parser.add_argument("--render", action="store_true", help="only write the tables and charts again")
    options = parser.parse_args()
    quick = options.quick
    options.only = options.only or list(QUICK if quick else WORKLOADS)
    options.contenders = (
        options.contenders.split(",") if options.contenders else list(QUICK_CONTENDERS if quick else CONTENDERS)
    )
    unknown = set(options.contenders) - CONTENDERS.keys()
    if unknown:
        parser.error(f"no contender '{min(unknown)}'; there are {', '.join(CONTENDERS)}")
    options.rounds = options.rounds or (QUICK_ROUNDS if quick else ROUNDS)
    options.limit = options.limit or (QUICK_LIMIT if quick else LIMIT)
    options.warm = set()  # the contenders that have run
    options.results = (options.results or (options.work / "quick" if quick else RESULTS)).resolve()
    return options


def installed(names: Iterable[str], work: Path) -> dict[str, str]:
    """Installs contenders; by name, why one could not be installed, or an empty text."""
    problems = {}
    for name in names:
        print(f"installing {CONTENDERS[name].title}", file=sys.stderr, flush=True)
        try:
            CONTENDERS[name].install(work)
            problems[name] = ""
        except subprocess.CalledProcessError as error:
            lines = [line for line in (error.stderr or "").splitlines() if line.strip()]
            problems[name] = f"could not be installed: {lines[-1] if lines else error}"
    return problems


def measure(workload: Workload, ready: dict[str, str], options: argparse.Namespace, work: Path) -> None:
    """Runs a workload: rounds of all contenders. The first time, each runs once on little, which does not count."""
    with topics.started() if workload.on_kafka else nullcontext() as log:
        measure_with(log, workload, ready, options, work)


def measure_with(
    log: Log | None, workload: Workload, ready: dict[str, str], options: argparse.Namespace, work: Path
) -> None:
    """The same, with the broker that the workload needs."""
    long = options.files or (QUICK_FILES if options.quick else workload.files)
    root, counts = work / "inputs", {1, *(min(long, CONTENDERS[name].files) for name in ready)}
    folders = {count * options.events: workload.prepared(root, count, options.events) for count in sorted(counts)}
    warm = workload.prepared(root, 1, WARM)
    table = inputs.table_of(root).parent
    right = {folder: answers.expected(workload, folder, table) for folder in (warm, *folders.values())}
    result = Result(
        workload.name, workload.title, workload.text, workload.has_state,
        today(), shown_command(options, workload), machine(),
    )  # fmt: skip
    limit = max(options.limit, workload.limit)
    playing: list[Contender] = []
    for name, problem in ready.items():
        contender = CONTENDERS[name]
        result.titles[name] = contender.title
        if not contender.streams:
            result.once.append(name)
        reason = problem or contender.reason(workload.name, workload.job)
        if reason is None:
            result.versions[name] = contender.versions(work)
            result.commands[name] = contender.shown(workload.job, cores_of(workload), endless=workload.on_kafka)
            if name not in options.warm:
                reason = one_run(contender, workload, warm, table, right[warm], work, limit, 0, WARM, log).problem
                options.warm.add(name)
        if reason:
            result.reasons[name] = reason
            print(f"{workload.name}: {contender.title}: {reason}", file=sys.stderr, flush=True)
        else:
            playing.append(contender)
    for number in range(options.rounds):
        for contender in list(playing):
            for count in sorted({1, min(long, contender.files)}):
                events, folder = count * options.events, folders[count * options.events]
                taken = one_run(contender, workload, folder, table, right[folder], work, limit, number, events, log)
                result.runs.append(taken)
                shown = taken.problem or f"{taken.seconds:.1f} s, CPU {taken.cpu:.1f} s, {taken.memory / 1e6:,.0f} MB"
                print(f"{workload.name} {number} {contender.title} {events:,}: {shown}", file=sys.stderr, flush=True)
                if taken.problem:
                    playing.remove(contender)
                    break
        results.write(result, options.results)
    print("\n".join([f"\n{result.title}", *pages.table(result), ""]), flush=True)


def measure_latency(ready: dict[str, str], options: argparse.Namespace, work: Path) -> None:
    """Runs each contender at several loads; how fast it reads a full topic must be measured already."""
    full = results.read(options.results).get("yahoo-kafka")
    if full is None:
        raise SystemExit("first measure how fast a full topic is read: --only yahoo-kafka")
    rates = {name: full.rate(name) if name in full.measured() else None for name in ready}
    unknown = {name: full.reason(name) or "not measured from a full topic" for name, rate in rates.items() if not rate}
    problems = {name: problem or unknown.get(name, "") for name, problem in ready.items()}
    for contender, log, table in on_kafka(problems, options, work):
        name, rate = contender.name, rates[contender.name]
        assert rate is not None
        command = f'make peers ARGS="--latency --contenders {name}"'
        taken = Latency(name, contender.title, today(), command, machine(), contender.versions(work), rate.median)
        latency.measure(taken, contender, log, table, work)
        results.save(taken, name, beside(options.results, "latency"))
    print("\n".join(["", *latency.section(latency.read(beside(options.results, "latency"))), ""]), flush=True)


def measure_recovery(ready: dict[str, str], options: argparse.Namespace, work: Path) -> None:
    """Kills and restarts each contender that reads Kafka."""
    for contender, log, table in on_kafka(ready, options, work):
        rounds = f" --rounds {options.rounds}" if options.rounds != ROUNDS else ""
        command = f'make peers ARGS="--recovery --contenders {contender.name}{rounds}"'
        taken = Recovery(contender.name, contender.title, today(), command, machine(), contender.versions(work))
        recovery.measure(taken, contender, log, table, work, options.rounds)
        results.save(taken, contender.name, beside(options.results, "recovery"))
    print("\n".join(["", *recovery.section(recovery.read(beside(options.results, "recovery"))), ""]), flush=True)


def on_kafka(ready: dict[str, str], options: argparse.Namespace, work: Path) -> Iterator[tuple[Contender, Log, Path]]:
    """The contenders that read Kafka, one by one, with the table of ads. Of others it says why not.

    Each has a broker of its own: what all of them are sent would fill a disk.
    """
    workload = WORKLOADS["yahoo-kafka"]
    workload.prepared(work / "inputs", 1, options.events)
    for name, problem in ready.items():
        contender = CONTENDERS[name]
        if reason := contender.reason(workload.name, workload.job) or problem:
            print(f"{contender.title}: {reason}", file=sys.stderr)
            continue
        with topics.started() as log:
            yield contender, log, inputs.table_of(work / "inputs").parent


def beside(folder: Path, kind: str) -> Path:
    """The folder of other results, beside that of the workloads."""
    return folder.with_name(f"{folder.name}-{kind}")


def today() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d")


def one_run(
    contender: Contender, workload: Workload, folder: Path, table: Path, right, work: Path, limit: float,
    number: int = 0, events: int = 0, log: Log | None = None,
) -> Measured:  # fmt: skip
    """One run in an empty folder, and whether its answer is right."""
    cores = cores_of(workload)
    output = work / "output" / f"{contender.name}-{time.time_ns()}"
    output.mkdir(parents=True)
    environment = {
        "PEERS_INPUT": str(folder), "PEERS_TABLE": str(table), "PEERS_OUTPUT": str(output),
        "PEERS_EVENTS": str(events + bool(workload.last)), "PEERS_QUERIES": str(workload.queries or 1),
        **contender.environment_of(cores),
    }  # fmt: skip
    command = contender.arguments(workload.job, work, output, cores, endless=workload.on_kafka)
    if cores < (os.cpu_count() or 1):
        command = ["taskset", "--cpu-list", f"0-{cores - 1}", *command]
    measured = Measured(contender.name, number, events)
    try:
        if log is None:
            taken, first = run(command, environment, output, limit), 0.0
            actual = answers.answer(output, workload)
            answers.check(actual, right)
        else:
            taken, first = kafka_run(contender, log, folder, table, right, command, environment, output, limit)
            actual = right
        figures = {
            "seconds": round(taken.seconds, 3), "cpu": round(taken.cpu, 2), "beside": round(taken.beside, 2),
            "first": round(first, 3),
        }  # fmt: skip
        return Measured(contender.name, number, events, memory=taken.memory, rows=len(actual), **figures)
    except Exception as error:  # of a contender, or of its answer: its row says so, and the others go on
        kind = {JobFailed: "", answers.WrongAnswer: "wrong answer: "}.get(type(error), "no answer: ")
        return Measured(**{**vars(measured), "problem": f"{kind}{error}"})
    finally:
        shutil.rmtree(output, ignore_errors=True)


def kafka_run(
    contender: Contender, log: Log, folder: Path, table: Path, right: pl.DataFrame, command: list[str],
    environment: dict[str, str], output: Path, limit: float,
) -> tuple[Taken, float]:  # fmt: skip
    """A run from a topic with the events of a folder into another one, until all of the answer is there.

    Behind what it took: the seconds from the command to the first row of the answer.
    """
    target = log.new("answer", partitions=1)
    source = log.filled(folder, inputs.later_ads(table / "ads.csv"))
    environment |= topics.environment(contender, log, source, target, topics.DISORDER)
    answer = topics.Answer(log.servers, target)
    awaited = topics.Awaited(answer, right)
    begun = time.monotonic()
    try:
        taken = run(command, environment, output, limit, awaited.is_complete, log.processes)
        return taken, awaited.first - begun
    except JobFailed as error:
        raise JobFailed(f"{error}; {awaited.lack}") from None
    finally:
        answer.close()


def cores_of(workload: Workload) -> int:
    return workload.cores or os.cpu_count() or 1


def shown_command(options: argparse.Namespace, workload: Workload) -> str:
    size = "--quick" if options.quick else "--full"
    extra = f" --rounds {options.rounds}" if options.rounds != (QUICK_ROUNDS if options.quick else ROUNDS) else ""
    extra += f" --files {options.files}" if options.files else ""
    usual = list(QUICK_CONTENDERS if options.quick else CONTENDERS)
    extra += f" --contenders {','.join(options.contenders)}" if options.contenders != usual else ""
    return f'make peers ARGS="{size} --only {workload.name}{extra}"'


def machine() -> dict[str, str]:
    """The machine, in a few words: cores, memory, processor, Java."""
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    models = {line.partition(":")[2].strip() for line in info.splitlines() if line.startswith("model name")}
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr.split('"')
    return {
        "cores": f"{os.cpu_count()} cores",
        "memory": f"{memory:.0f} GiB",
        "processor": min(models, default=platform.machine()),
        "system": f"{platform.system()} {platform.machine()}",
        "java": f"Java {java[1]}" if len(java) > 1 else "no Java",
    }


if __name__ == "__main__":
    main()
