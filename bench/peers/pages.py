"""Results as tables: in the terminal, and as a page of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import geometric_mean
from typing import Protocol

from bench.peers.results import QUIET, Result, Spread

OURS = "penstock"


class Origin(Protocol):
    """What is known of how one contender was measured."""

    title: str
    date: str
    command: str
    machine: Mapping[str, str]
    versions: Mapping[str, str]


#: The characters of a cell that says why there are no figures.
LONGEST_REASON = 90


def page(results: Iterable[Result], latency: Sequence[str] = ()) -> str:
    """All results as Markdown."""
    known = list(results)
    parts = [text for result in known for text in (section(result), "")]
    return "\n".join([*summary(known), *parts, *latency]).rstrip() + "\n"


def section(result: Result) -> str:
    """One workload: when and where it was measured, its table, versions and commands."""
    names = result.measured()
    lines = [
        f"## {result.title}",
        "",
        result.text,
        "",
        f"Measured on {result.date} by `{result.command}` ({', '.join(result.machine.values())}).",
        "",
        *table(result),
        "",
        f"Other programs used {result.beside:.1f} cores meanwhile. Runs beside which they used more than {QUIET:g} do "
        f"not count: {disturbed(result)}.",
        "",
        *(f"- {result.titles[name]}: {versions(result, name)}; `{result.commands[name]}`" for name in names),
    ]
    return "\n".join(lines)


def disturbed(result: Result) -> str:
    """The runs that do not count, with their times."""
    shown = (
        f"{result.titles[run.contender]} {count(run.events)} in {run.seconds:.1f} s beside {run.beside:.1f} cores"
        for run in result.disturbed
    )
    return "; ".join(shown) or "none"


def versions(result: Result, name: str) -> str:
    return ", ".join(f"{what} {number}" for what, number in result.versions[name].items())


def table(result: Result) -> list[str]:
    """The table of a workload: steady state, start and end, CPU and memory."""
    if not result.runs:
        return ["Nothing was measured."]
    short, long = result.sizes
    has_first = any(run.first for run in result.runs)
    head = [
        "", "events/s, steady", "Penstock, of it",
        *(["command to the first row"] if has_first else []), f"command to the end of {count(short)}",
        f"of {count(long)}", "CPU an event", "memory",
    ]  # fmt: skip
    ours = result.rate(OURS) if OURS in result.measured() else None
    rows = []
    for name in result.titles:
        reason = result.reason(name)
        if reason is not None or name not in result.measured():
            rows.append([result.titles[name], shortened(reason or "not measured"), *[""] * (len(head) - 2)])
            continue
        rate = None if name in result.once else result.rate(name)
        own = result.sizes_of(name)[1]
        whole = result.seconds(name, own)
        if name in result.once and whole is not None:
            rate = Spread(*(long / seconds for seconds in (whole.median, whole.most, whole.least)))
        of_it = f"{ours.median / rate.median:.2f}" if ours and rate and name != OURS else ""
        rows.append([
            result.titles[name], rates(rate), of_it, *([times(result.first(name))] if has_first else []),
            times(result.seconds(name, short)),
            times(whole) if own == long else f"{count(own)}: {times(whole)}",
            f"{result.cpu(name):.1f} µs", f"{result.memory(name) / 1e6:,.0f} MB",
        ])  # fmt: skip
    return grid(head, rows)


def shortened(reason: str) -> str:
    """A reason that fits into a cell; the whole one is in the file of the result."""
    return reason if len(reason) <= LONGEST_REASON else f"{reason[: LONGEST_REASON - 1].rstrip()}…"


def summary(results: Sequence[Result]) -> list[str]:
    """How many times the events per second of each contender Penstock takes, by workload, and the geometric means."""
    titles: dict[str, str] = {}
    for result in results:
        titles |= {name: title for name, title in result.titles.items() if name != OURS and name not in result.once}
    ratios = {name: {result.workload: ratio(result, name) for result in results} for name in titles}
    rows = [
        [result.title, *(f"{found:.2f}" if (found := ratios[name][result.workload]) else "–" for name in titles)]
        for result in results
    ]
    means = []
    for name in titles:
        known = [found for result in results if result.has_state and (found := ratios[name][result.workload])]
        means.append(f"{geometric_mean(known):.2f}" if known else "–")
    head = ["Penstock's events/s, of those of", *titles.values()]
    return [*grid(head, [*rows, ["geometric mean, with state", *means]]), ""] if titles else []


def ratio(result: Result, name: str) -> float | None:
    """How many times as many events a second Penstock takes."""
    measured = result.measured()
    if name not in measured or OURS not in measured:
        return None
    ours, theirs = result.rate(OURS), result.rate(name)
    return ours.median / theirs.median if ours and theirs else None


def measured_by(one: Origin) -> str:
    """When, by which command and with which versions a contender was measured, as an item of a list."""
    versions_of = ", ".join(f"{name} {number}" for name, number in one.versions.items())
    return (
        f"- {one.title}: measured on {one.date} by `{one.command}` ({', '.join(one.machine.values())}); {versions_of}"
    )


def grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table of Markdown, its columns aligned."""
    widths = [max(len(row[place]) for row in [head, *rows]) for place in range(len(head))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in [head, *rows]
    ]
    return [lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]]


def rates(spread: Spread | None) -> str:
    if spread is None:
        return "too short to tell"
    return f"{spread.median / 1000:,.0f} k/s ({spread.least / 1000:,.0f}–{spread.most / 1000:,.0f})"


def times(spread: Spread | None) -> str:
    return "" if spread is None else f"{spread.median:.1f} s ({spread.least:.1f}–{spread.most:.1f})"


def count(events: int) -> str:
    return f"{events / 1e6:g} M events" if events >= 1_000_000 else f"{events:,} events"
