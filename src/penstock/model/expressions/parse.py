"""From SQL text to a syntax tree and its canonical text. Knows no schema: names and types are checked by `bind`.

>>> parse("price>1.5 and Upper(`name`)='X'")
ParsedExpression(text="price > 1.5 AND UPPER(name) = 'X'", columns=frozenset({...}))
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from penstock.errors import DefinitionError
from penstock.model.expressions.dialect import SparkExpressions

_AGGREGATES = frozenset({
    "any", "any_value", "approx_count_distinct", "approx_percentile", "approx_top_k", "approx_top_k_accumulate",
    "approx_top_k_combine", "array_agg", "avg", "bit_and", "bit_or", "bit_xor", "bitmap_and_agg",
    "bitmap_construct_agg", "bitmap_or_agg", "bool_and", "bool_or", "collect_list", "collect_set", "collect_union",
    "corr", "count", "count_if", "count_min_sketch", "covar_pop", "covar_samp", "every", "first", "first_value",
    "grouping", "grouping_id", "histogram_numeric", "hll_sketch_agg", "hll_union_agg", "kll_merge_agg_bigint",
    "kll_merge_agg_double", "kll_merge_agg_float", "kll_sketch_agg_bigint", "kll_sketch_agg_double",
    "kll_sketch_agg_float", "kurtosis", "last", "last_value", "listagg", "max", "max_by", "mean", "measure", "median",
    "min", "min_by", "mode", "percentile", "percentile_approx", "percentile_cont", "percentile_disc", "regr_avgx",
    "regr_avgy", "regr_count", "regr_intercept", "regr_r2", "regr_slope", "regr_sxx", "regr_sxy", "regr_syy",
    "skewness", "some", "std", "stddev", "stddev_pop", "stddev_samp", "string_agg", "sum", "theta_intersection_agg",
    "theta_sketch_agg", "theta_union_agg", "try_avg", "try_sum", "tuple_intersection_agg_double",
    "tuple_intersection_agg_integer", "tuple_sketch_agg_double", "tuple_sketch_agg_integer", "tuple_union_agg_double",
    "tuple_union_agg_integer", "var_pop", "var_samp", "variance",
})  # fmt: skip
_WINDOW_FUNCTIONS = frozenset({
    "counter_diff", "cume_dist", "dense_rank", "lag", "lead", "nth_value", "ntile", "percent_rank", "rank",
    "row_number",
})  # fmt: skip
_GENERATORS = frozenset({
    "explode", "explode_outer", "inline", "inline_outer", "posexplode", "posexplode_outer", "stack",
})  # fmt: skip
#: With three arguments, the first of these is a unit (DAY, HOUR, …) and no column.
_UNIT_FIRST = frozenset(["dateadd", "date_add", "datediff", "date_diff", "timestampadd", "timestampdiff"])


@dataclass(frozen=True)
class ParsedExpression:
    """An expression whose syntax is right. Two are equal if their canonical texts are."""

    text: str
    columns: frozenset[str] = field(compare=False)
    tree: exp.Expr = field(compare=False, repr=False)


@lru_cache(maxsize=4096)
def parse(text: str) -> ParsedExpression:
    """Reads one expression of Spark SQL; aggregates, window functions and queries are not expressions of a row."""
    tree = _read(text)
    _refuse(tree, text)
    for call in tree.find_all(exp.Anonymous):
        if call.name.lower() in _UNIT_FIRST and len(call.expressions) == 3:
            call.expressions[0].replace(exp.var(call.expressions[0].name.upper()))
    for sum_of in tree.find_all(exp.Add):
        # 'INTERVAL 1 DAY 2 HOURS' is read as a sum without brackets; as a right operand it needs them in the text.
        if sum_of.find(exp.Interval) and isinstance(sum_of.parent, exp.Binary) and sum_of.arg_key == "expression":
            sum_of.replace(exp.Paren(this=sum_of.copy()))
    for minus in list(tree.find_all(exp.Neg)):
        # -128Y is one literal. Its suffix is read as a cast, which must come after the sign: 128 is not a tinyint.
        if isinstance(minus.this, exp.Cast) and isinstance(minus.this.this, exp.Literal) and minus.this.this.is_number:
            cast = minus.this.copy()
            cast.set("this", exp.Neg(this=cast.this))
            tree = cast if minus is tree else minus.replace(cast).root()
    for name in tree.find_all(exp.Identifier):
        name.set("quoted", not _is_plain(name.name))
    columns = frozenset(column.parts[0].name for column in tree.find_all(exp.Column) if not column.is_star)
    return ParsedExpression(canonical(tree), columns, tree)


def canonical(tree: exp.Expr) -> str:
    """The text of a tree: one spelling for all ways to write it."""
    return tree.sql(SparkExpressions, comments=False)


def _read(text: str) -> exp.Expr:
    dialect = SparkExpressions()
    try:
        trees = dialect.parser().parse(join_doubled_quotes(dialect.tokenize(text), text), text)
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        at = len(first.get("start_context") or "") if first.get("highlight") else len(text)
        what = (first.get("description") or "").lower()
        unfinished = "required keyword" in what or at >= len(text.rstrip())
        hint = "the text ends too early, or an operand is missing" if unfinished else "write an expression of Spark SQL"
        raise _bad_syntax(text, at, hint) from None
    except TokenError:
        raise _bad_syntax(text, len(text), "is a quote or a backtick left open?") from None
    expressions = [tree for tree in trees if tree is not None]
    if not expressions:
        raise DefinitionError("an empty expression", hint="write for example 'price * quantity'")
    if len(expressions) > 1:
        raise DefinitionError(f"several statements where one expression is meant: '{text}'")
    return expressions[0]


def join_doubled_quotes(tokens: list[Token], text: str) -> list[Token]:
    """'it''s' is one literal in Spark 4, where SQLGlot reads two: a doubled quote stands for itself."""
    joined: list[Token] = []
    for token in tokens:
        last = joined[-1] if joined else None
        both = last is not None and last.token_type is token.token_type is TokenType.STRING
        if last and both and last.end + 1 == token.start and text[last.end] == text[token.start]:
            joined[-1] = Token(
                TokenType.STRING, last.text + text[token.start] + token.text, start=last.start, end=token.end
            )
        else:
            joined.append(token)
    return joined


def _refuse(tree: exp.Expr, text: str) -> None:
    """What parses, but is not an expression of one row."""
    if isinstance(tree, exp.Alias):
        raise _bad_syntax(text, len(text), f"'{tree.alias}' is not expected here; an expression has no alias")
    if not isinstance(tree, (exp.Condition, exp.Interval, exp.Query)):
        raise _no_expression_of_a_row(text, "a statement", "write an expression such as 'price * quantity'")
    for node in tree.walk():
        if isinstance(node, (exp.Query, exp.Exists)):
            raise _no_expression_of_a_row(text, "a subquery", "join the streams, or use a view over a view")
        if isinstance(node, exp.Array):  # SQLGlot reads 'array(a)[0]' as a type with a literal after it
            raise _bad_syntax(text, len(text), "put the array into brackets: (array(a, b))[0]")
        if isinstance(node, exp.Window):
            raise _no_expression_of_a_row(text, "a window function", "give the view a window instead")
        if isinstance(node, (exp.Placeholder, exp.Parameter)):
            raise _no_expression_of_a_row(text, f"the parameter '{node.sql()}'", "write the value itself")
        if isinstance(node, (exp.Star, exp.Tuple)) and not isinstance(node.parent, (exp.Anonymous, exp.Any)):
            raise _no_expression_of_a_row(text, f"'{node.sql()}'", "an expression has one value")
        if isinstance(node, exp.Any) and not isinstance(node.parent, (exp.Like, exp.ILike)):
            name = "any"
        elif isinstance(node, exp.Anonymous):
            name = node.name.lower()
        else:
            continue
        if name in _AGGREGATES:
            raise _no_expression_of_a_row(text, f"the aggregate {name}", "aggregates go into .agg(…)")
        if name in _WINDOW_FUNCTIONS:
            raise _no_expression_of_a_row(text, f"the window function {name}", "give the view a window instead")
        if name in _GENERATORS:
            raise _no_expression_of_a_row(text, f"the generator {name}", "use stream.explode(…)")


def _no_expression_of_a_row(text: str, what: str, hint: str) -> DefinitionError:
    return DefinitionError(f"{what} is not an expression of one row: '{text}'", hint=hint)


def _bad_syntax(text: str, at: int, hint: str) -> DefinitionError:
    line_start = text.rfind("\n", 0, at) + 1
    line_end = text.find("\n", at)
    line = text[line_start : line_end if line_end >= 0 else len(text)]
    caret = " " * (len("  detail: ") + at - line_start) + "^"
    return DefinitionError(f"cannot read the expression '{text}'", detail=f"{line}\n{caret}", hint=hint)


@lru_cache(maxsize=4096)
def _is_plain(name: str) -> bool:
    """Whether a column's name reads as a name without backticks."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return False
    return [token.token_type for token in SparkExpressions().tokenize(name)] == [TokenType.VAR]
