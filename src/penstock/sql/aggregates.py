"""The aggregates under their SQL names: Spark's where Spark has one.

>>> source = Source("max_by(team, score)")
>>> aggregate(source, Call(Piece("max_by", 0, 6), (Piece("team", 7, 11), Piece("score", 13, 18))))
ps.max_by('team', 'score')
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass

from penstock.model import aggregates as model
from penstock.sql.constants import plain
from penstock.sql.errors import Piece, Source, SqlError
from penstock.sql.queries import Call


@dataclass(frozen=True)
class Signature:
    """How an aggregate is called: `inputs` are expressions, `settings` constants; `options` are given by name only."""

    make: Callable[..., model.Aggregate]
    inputs: tuple[str, ...] = ("x",)
    optional: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    needed: int = 0  # the number of settings that are required
    options: tuple[str, ...] = ()
    first: bool = False  # the settings stand before the inputs

    def names(self) -> tuple[str, ...]:
        inputs = (*self.inputs, *self.optional)
        return (*self.settings, *inputs) if self.first else (*inputs, *self.settings)

    def usage(self, name: str) -> str:
        must = {*self.inputs, *self.settings[: self.needed]}
        parameters = [part if part in must else f"[{part}]" for part in self.names()]
        return f"{name}({', '.join([*parameters, *(f'[{option} => …]' for option in self.options)])})"


def _spark_top_k(x: str, k: int = 5, size: int = 1024, where: str | None = None) -> model.Aggregate:
    """Spark's approx_top_k: five values unless set otherwise."""
    return model.heavy_hitters(x, limit=k, size=size, where=where)


def _distinct(x: str, lg_k: int = 12, exact_in_batch: bool = False, where: str | None = None) -> model.Aggregate:
    live = model.approx_distinct(x, lg_k=lg_k, where=where)
    if not isinstance(exact_in_batch, bool):
        raise TypeError("exact_in_batch is true or false")
    return live.in_batch(model.count_distinct(x, where=where)) if exact_in_batch else live


def _count_if(condition: str, where: str | None = None) -> model.Aggregate:
    return model.count(where=condition if where is None else f"({where}) AND ({condition})")


_ONE: dict[str, Callable[..., model.Aggregate]] = {
    "sum": model.sum, "try_sum": model.sum, "avg": model.avg, "mean": model.avg, "min": model.min, "max": model.max,
    "variance": model.variance, "var_samp": model.variance, "var_pop": model.var_pop,
    "stddev": model.stddev, "std": model.stddev, "stddev_samp": model.stddev, "stddev_pop": model.stddev_pop,
    "first": model.first, "first_value": model.first, "last": model.last, "last_value": model.last,
    "collect_set": model.collect_set,
}  # fmt: skip
_QUANTILE = Signature(model.quantile, settings=("q",), needed=1, options=("k",))
_LIST = Signature(model.collect_list, options=("order",))
AGGREGATES: dict[str, Signature] = {
    "count": Signature(model.count, inputs=(), optional=("x",)),
    "count_if": Signature(_count_if, inputs=("condition",)),
    **{name: Signature(make) for name, make in _ONE.items()},
    "min_by": Signature(model.min_by, inputs=("x", "by")),
    "max_by": Signature(model.max_by, inputs=("x", "by")),
    "collect_list": _LIST,
    "array_agg": _LIST,
    "approx_count_distinct": Signature(_distinct, options=("lg_k", "exact_in_batch")),
    "percentile_approx": _QUANTILE,
    "approx_percentile": _QUANTILE,
    "top": Signature(
        model.top, inputs=("by",), optional=("value",), settings=("k",), needed=1, options=("ties",), first=True
    ),
    "heavy_hitters": Signature(model.heavy_hitters, options=("limit", "size")),
    "approx_top_k": Signature(_spark_top_k, settings=("k",), options=("size",)),
    "second_moment": Signature(model.second_moment, options=("width", "depth")),
}
#: What other engines call otherwise, or what Penstock has only in another form.
_INSTEAD = {
    "median": "percentile_approx(x, 0.5)",
    "percentile": "percentile_approx(x, 0.5)",
    "percentile_cont": "percentile_approx(x, 0.5)",
    "any_value": "first(x)",
    "count_distinct": "count(DISTINCT x)",
    "approx_distinct": "approx_count_distinct(x)",
    "quantile": "percentile_approx(x, 0.5)",
    "string_agg": "collect_list(x)",
    "listagg": "collect_list(x)",
}


def aggregate(source: Source, call: Call) -> model.Aggregate:
    """The aggregate that a call means."""
    name = call.name.text.lower()
    signature = AGGREGATES[name]
    where = None if call.where is None else call.where.text
    if call.distinct:
        if name != "count" or len(call.arguments) != 1 or call.named:
            raise _refused(source, call, "DISTINCT is allowed in count(DISTINCT x) only", "leave DISTINCT out")
        return _made(source, call, model.count_distinct, {"x": call.arguments[0].text}, where)
    if call.star and name != "count":
        raise _refused(source, call, f"{name}(*) means nothing", f"write {signature.usage(name)}")
    arguments = _arguments(source, call, name, signature)
    return _made(source, call, signature.make, arguments, where)


def _arguments(source: Source, call: Call, name: str, signature: Signature) -> dict[str, object]:
    names = signature.names()
    if len(call.arguments) > len(names):
        extra = call.arguments[len(names)]
        raise source.error(f"{name} takes no '{extra.text}'", extra, detail=f"it is {signature.usage(name)}")
    arguments = dict(zip(names, call.arguments, strict=False))
    known = (*names, *signature.options)
    for option, piece in call.named:
        if option.text.lower() not in known or option.text.lower() in arguments:
            near = difflib.get_close_matches(option.text.lower(), known, n=1)
            raise source.error(
                f"{name} has no option '{option.text}'" if option.text.lower() not in known
                else f"{name}: '{option.text}' appears twice",
                option, detail=f"it is {signature.usage(name)}", hint=f"did you mean {near[0]}?" if near else None,
            )  # fmt: skip
        arguments[option.text.lower()] = piece
    for must in (*signature.inputs, *signature.settings[: signature.needed]):
        if must not in arguments:
            raise _refused(source, call, f"{name} needs {must}", f"write {signature.usage(name)}")
    constants = {*signature.settings, *signature.options}
    return {key: plain(source, piece) if key in constants else piece.text for key, piece in arguments.items()}


def _made(
    source: Source, call: Call, make: Callable[..., model.Aggregate], arguments: dict[str, object], where: str | None
) -> model.Aggregate:
    with source.at(call.whole):
        try:
            return make(**arguments, **({} if where is None else {"where": where}))
        except TypeError:
            usage = AGGREGATES[call.name.text.lower()].usage(call.name.text.lower())
            raise _refused(source, call, "a setting has a value of the wrong kind", f"write {usage}") from None


def _refused(source: Source, call: Call, message: str, hint: str) -> SqlError:
    return source.error(message, call.whole, hint=hint)


def no_aggregate(source: Source, name: Piece) -> SqlError | None:
    """The error for a call that looks like an aggregate and is none of Penstock's; None if it does not look so."""
    text = name.text.lower()
    if text in _INSTEAD:
        return source.error(f"there is no aggregate '{text}'", name, hint=f"write {_INSTEAD[text]}")
    near = difflib.get_close_matches(text, list(AGGREGATES), n=1, cutoff=0.7)
    if not near:
        return None
    return source.error(
        f"unknown aggregate '{text}'", name, detail=f"there are: {', '.join(sorted(AGGREGATES))}",
        hint=f"did you mean {near[0]}?",
    )  # fmt: skip
