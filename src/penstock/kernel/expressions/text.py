"""Text on columns. A character is a code point, in Polars as in Spark.

>>> import polars as pl
>>> from penstock.model.expressions.tree import Call
>>> pl.select(TEXT["reverse"](Call("reverse", (), "string"), pl.lit("a𝔘b"))).item()
'b𝔘a'
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from penstock.kernel.expressions.outcome import Outcome, Rule
from penstock.model.expressions.tree import Call, Literal

_EMPTY = pl.lit("")
_LONGEST = pl.lit((1 << 31) - 1)


def _length(text: pl.Expr) -> pl.Expr:
    return text.str.len_chars().cast(pl.Int64)


def _known(call: Call, columns: Sequence[pl.Expr], value: pl.Expr) -> pl.Expr:
    """The value where none of the columns, the last arguments of the call, is null."""
    nodes = call.args[len(call.args) - len(columns) :]
    present = [
        column.is_not_null()
        for node, column in zip(nodes, columns, strict=True)
        if not isinstance(node, Literal) or node.value is None
    ]
    return pl.when(*present).then(value).otherwise(None) if present else value


def _substring(call: Call, text: pl.Expr, *bounds: pl.Expr) -> pl.Expr:
    """From 1 on; a negative start counts from the end, and may lie before the beginning."""
    start, count = (bound.cast(pl.Int64) for bound in (*bounds, _LONGEST)[:2])
    begin = call.args[1]
    if isinstance(begin, Literal) and isinstance(begin.value, int) and begin.value >= 0:
        return _known(call, bounds, text.str.slice(max(begin.value - 1, 0), count.clip(0)))
    first = pl.when(start > 0).then(start - 1).when(start < 0).then(_length(text) + start).otherwise(0)
    last = first + count.clip(0)
    return _known(call, bounds, text.str.slice(first.clip(0), (last - first.clip(0)).clip(0)))


def _left(call: Call, text: pl.Expr, count: pl.Expr) -> pl.Expr:
    return _known(call, (count,), text.str.slice(0, count.cast(pl.Int64).clip(0)))


def _right(call: Call, text: pl.Expr, count: pl.Expr) -> pl.Expr:
    return _known(call, (count,), text.str.slice((_length(text) - count.cast(pl.Int64).clip(0)).clip(0)))


def _repeated(text: pl.Expr, count: pl.Expr) -> pl.Expr:
    return text.repeat_by(count.clip(0)).list.join("")


def _repeat(call: Call, text: pl.Expr, count: pl.Expr) -> pl.Expr:
    return _known(call, (text, count), _repeated(text, count))


def _trim(name: str) -> Rule:
    return lambda call, text, chars: _known(call, (chars,), getattr(text.str, name)(chars))


def _pad(before: bool) -> Rule:
    def rule(call: Call, text: pl.Expr, count: pl.Expr, fill: pl.Expr) -> pl.Expr:
        width = count.cast(pl.Int64)
        missing = (width - _length(text)).clip(0)
        times = pl.when(_length(fill) > 0).then(missing // _length(fill) + 1).otherwise(0)
        padding = _repeated(fill, times).str.slice(0, missing)
        both = [padding, text] if before else [text, padding]
        cut = text.str.slice(0, width.clip(0))
        return _known(call, (text, count, fill), pl.when(missing > 0).then(pl.concat_str(both)).otherwise(cut))

    return rule


def _locate(call: Call, part: pl.Expr, text: pl.Expr, start: pl.Expr) -> pl.Expr:
    """The place of the first character of a part, from 1 on; an empty part is at 1, a missing one at 0."""
    begin = call.args[2]
    assert isinstance(begin, Literal)
    assert isinstance(begin.value, int)
    if begin.value < 1:
        return _known(call, (part, text, start), pl.lit(0, dtype=pl.Int32))
    rest = text if begin.value == 1 else text.str.slice(begin.value - 1)
    position = rest.str.splitn(part, 2).struct.field("field_0").str.len_chars().cast(pl.Int32) + begin.value
    place = pl.when(part == "").then(1).when(rest.str.contains(part, literal=True)).then(position).otherwise(0)
    return _known(call, (part, text, start), place.cast(pl.Int32))


def _split_part(call: Call, text: pl.Expr, separator: pl.Expr, index: pl.Expr) -> Outcome:
    whole = pl.when((index == 1) | (index == -1)).then(text).otherwise(_EMPTY)
    at = pl.when(index > 0).then(index - 1).otherwise(index)
    part = text.str.split(separator).list.get(at, null_on_oob=True).fill_null("")
    value = _known(call, (text, separator, index), pl.when(separator == "").then(whole).otherwise(part))
    return Outcome(value, (index == 0) & text.is_not_null() & separator.is_not_null(), "split_part at index 0")


def _replace(call: Call, text: pl.Expr, _: pl.Expr, new: pl.Expr) -> pl.Expr:
    old = call.args[1]
    assert isinstance(old, Literal)
    replaced = text.str.replace_all(str(old.value), new, literal=True) if old.value else text
    return _known(call, (new,), replaced)


def _matches(call: Call, text: pl.Expr, _: pl.Expr) -> pl.Expr:
    pattern = call.args[1]
    assert isinstance(pattern, Literal)
    return text.str.contains(str(pattern.value))


def _concat_ws(_: Call, separator: pl.Expr, *parts: pl.Expr) -> pl.Expr:
    """Parts that are null are left out, with their separator."""
    if not parts:
        return pl.when(separator.is_not_null()).then(_EMPTY).otherwise(None)
    joined = pl.concat_str([pl.concat_str([separator, part]).fill_null("") for part in parts])
    return pl.when(separator.is_not_null()).then(joined.str.slice(_length(separator))).otherwise(None)


TEXT: Final[dict[str, Rule]] = {
    "concat": lambda _, *parts: pl.concat_str(parts), "concat_ws": _concat_ws,
    "upper": lambda _, text: text.str.to_uppercase(), "lower": lambda _, text: text.str.to_lowercase(),
    "trim": _trim("strip_chars"), "ltrim": _trim("strip_chars_start"), "rtrim": _trim("strip_chars_end"),
    "length": lambda _, text: text.str.len_chars().cast(pl.Int32),
    "substring": _substring, "left": _left, "right": _right, "replace": _replace,
    "startswith": lambda _, text, part: text.str.starts_with(part),
    "endswith": lambda _, text, part: text.str.ends_with(part),
    "contains": lambda _, text, part: text.str.contains(part, literal=True),
    "locate": _locate, "lpad": _pad(before=True), "rpad": _pad(before=False), "repeat": _repeat,
    # Polars' own reverse keeps a letter and its accents together, Spark does not.
    "reverse": lambda _, text: text.str.split("").list.reverse().list.join(""),
    "split_part": _split_part, "matches": _matches,
}  # fmt: skip
