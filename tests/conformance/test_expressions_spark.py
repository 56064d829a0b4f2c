"""Spark SQL is the truth: every expression of the subset, on edge values, as Spark, the model and the kernel see it.

Spark wraps each expression in its own TryEval, so that one job evaluates many expressions on many rows, also those that
fail: the answer is a struct with the value, and null where the evaluation failed.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from penstock.errors import RowError
from penstock.kernel.expressions import compile, dtype
from penstock.model.expressions import Bound, bind, evaluate
from penstock.model.types import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

NAN, INF = math.nan, math.inf
FAILS = "fails"
#: The values of each type. Two columns of a type meet in all combinations.
VALUES: dict[str, list[object]] = {
    "tinyint": [None, 0, 1, -1, 127, -128, 7, -7],
    "smallint": [None, 0, 1, -1, 32767, -32768, 300, -7],
    "int": [None, 0, 1, -1, 2**31 - 1, -(2**31), 7, -7, 1000, 46341],
    "bigint": [None, 0, 1, -1, 2**63 - 1, -(2**63), 7, -3, 2**53 + 1, 3037000500],
    "float": [None, 0.0, -0.0, 1.5, -2.5, NAN, INF, -INF, 0.10000000149011612, 3.4028234663852886e38, 16777216.0],
    "double": [None, 0.0, -0.0, 1.5, -2.5, NAN, INF, -INF, 0.1, 1.005, 1e308, 5e-324, 2147483647.5, -9.3e18, 2.675, 1e15,
               0.15, 2.5, -0.5, 9007199254740993.0, 127.9, -128.9],
    "decimal(10,2)": [None, *map(Decimal, ("0.00", "1.50", "-1.50", "99999999.99", "-99999999.99", "0.01", "2.55", "7.00"))],
    "string": [None, "", " ", "a", "ab", "A", "Straße", "e\u0301", "𝔘x𝔘", "a,b,c", "%", "x_y", " 42 ", "-7", "12.5", "1e3",
               "nan", "true", "2024-02-29", "2023-02-29", "İI", "ΑΣ", "a\nb", "hello world", "\t9\n", "9223372036854775808",
               "\\", "-Infinity", "+10000-1-1 x", "v1.2.3", "1.5d", "\x7f5"],
    "boolean": [None, True, False],
    "date": [None, 0, -1, 19782, 19783, 18627, 18992, -719528, -719529, 2932896, 2932897, 2**31 - 1, -(2**31) + 366, 365],
    "timestamp": [None, 0, -1, 1_709_210_096_789_012, 1_609_718_399_999_999, -62_135_596_800_000_000, 253_402_300_799_999_999,
                  2**63 - 1, -(2**63), -2_208_988_800_000_000, 1_000_000, -999_999, 31_536_000_000_000],
    "binary": [None, b"", b"a", b"\xff\x00"],
}  # fmt: skip
#: Two columns of each type: one letter, and the same doubled.
NAMES = {
    "tinyint": "y", "smallint": "s", "int": "i", "bigint": "l", "float": "f", "double": "d", "decimal(10,2)": "e",
    "string": "c", "boolean": "o", "date": "t", "timestamp": "a", "binary": "b",
}  # fmt: skip
SCHEMA = Schema(tuple((name * n, kind) for kind, name in NAMES.items() for n in (1, 2)))
#: Java, C and Rust agree on these only to the last bit or two.
TRANSCENDENTAL = re.compile(r"(?i)\b(exp|ln|log|log10|log2|pow|power)\(")

EXPRESSIONS = """
-- columns and literals
i;  `C`;  o;  t;  a;  b;  e;  1;  -1;  3000000000;  -2147483648;  -9223372036854775808;  1L;  5S;  -128Y;  1.5;  -0.05;  .5
1e3;  1.5D;  0.1F;  -1.5D;  'text';  "double";  'it''s';  'a' 'b';  'tab\\there';  '\\u00e9\\101\\\\';  r'raw\\n';  true;  x'0aFF'
DATE '2024-02-29';  TIMESTAMP '2024-02-29 12:34:56.789';  TIMESTAMP '2024-02-29T12:34:56Z';  TIMESTAMP '2024-02-29 12:00:00+02:00'
9223372036854775808;  99999999999.5;  cast(null as int);  -(5);  - -i
-- arithmetic of whole numbers
y + yy;  y - yy;  y * yy;  s + ss;  s - ss;  s * ss;  i + ii;  i - ii;  i * ii;  l + ll;  l - ll;  l * ll;  y + l;  s * i;  i + l
i + 1;  1 + i;  i - 1;  1 - i;  i + -1;  i - -1;  i * 2;  l + 1;  l - 1;  l * 2;  l + -9223372036854775808;  y + 1Y;  y - 100Y
l - -9223372036854775808;  100Y - y;  -y;  -s;  -i;  -l;  abs(y);  abs(s);  abs(i);  abs(l);  negative(i);  positive(i)
i / ii;  l / ll;  y / 2;  i / 0;  i % ii;  l % ll;  y % yy;  s % 7;  i % -7;  l % 10;  i % 0;  i div ii;  l div ll;  y div yy
i div 0;  l div -1;  l div 7;  mod(i, ii);  mod(l, 5);  pmod(i, ii);  pmod(l, ll);  pmod(y, yy);  pmod(i, 7);  pmod(i, -7);  pmod(s, ss)
try_add(i, ii);  try_add(l, ll);  try_subtract(i, ii);  try_multiply(l, ll);  try_divide(i, ii);  try_mod(i, ii);  try_add(y, yy)
try_add(i, ii div i);  try_multiply(s, ss);  try_divide(d, dd);  try_subtract(y, yy)
-- arithmetic of floats
f + ff;  f - ff;  f * ff;  f / ff;  d + dd;  d - dd;  d * dd;  d / dd;  f + d;  i + d;  l + d;  l * f;  i - f;  d * 2;  d + 1.5;  f * 2
-d;  -f;  abs(d);  abs(f);  d + 0;  0 + d;  d - 0;  0 - d;  f + 0F;  d * 0;  0 / d;  d / 0;  d / 2;  d / 3;  d / 10;  d / (1 + 2);  d / if(o, 3, 7);  d / nvl(dd, 49);  1 / d;  d + e;  e / d;  f + 0.1;  d * 1.1;  i / 2.0D
ceil(d);  floor(d);  ceil(f);  floor(f);  ceil(i);  floor(l);  ceiling(y);  round(d);  round(d, 1);  round(d, 2);  round(d, 3)
round(i);  round(l, 2);  sqrt(d);  sqrt(i);  exp(d);  ln(d);  log(d);  log(2, d);  log(d, dd);  log10(d);  log2(d);  pow(d, dd)
power(i, 2);  pow(d, 0.5);  sign(d);  signum(i);  sign(f);  isnan(d);  isnan(f);  isnan(i);  nanvl(d, dd);  nanvl(d, 1);  nanvl(i, d)
exp(1);  sqrt(l);  sign(e);  log10(l)
-- decimals
e + ee;  e - ee;  e * ee;  e + 1;  1 - e;  e * 3;  e + i;  l * e;  i + 1.5;  l + 0.25;  i * 1.5;  1.5 * 1.5;  0.1 + 0.2;  -e;  abs(e)
e = ee;  e < ee;  e > 1.5;  e >= 2;  e = 7;  i > 1.5;  i >= 1.5;  i < -0.5;  i <= 1000.0;  i = 7.0;  i = 7.5;  i <=> 7.5;  1.5 < i
l > 1.5;  y < 100.5;  d > 1.5;  d = 1.5;  f > 1.5;  f = 0.1;  e > d;  e = i;  e <=> ee;  i <> 7.0;  l >= 9007199254740993.0;  1.5 = 1.50
e in (1.5, 7);  i in (1.5, 7);  e between 0 and 2.55;  i between 0.5 and 7.5;  greatest(e, ee);  least(e, 1.505);  coalesce(e, 0)
nvl(e, i);  if(o, e, 1);  case when o then 1.5 else 2 end;  nullif(e, 7)
cast(e as int);  cast(e as bigint);  cast(e as tinyint);  cast(e as double);  cast(e as float);  cast(e as string);  cast(e as boolean)
cast(e as decimal(12,4));  cast(e as decimal(10,1));  cast(e as decimal(3,1));  cast(e as decimal(20,0));  cast(i as decimal(12,2))
cast(i as decimal(5,2));  cast(l as decimal(20,0));  cast(l as decimal(18,0));  cast(y as decimal(3,0));  try_cast(e as decimal(3,2))
try_cast(e as tinyint);  cast(l as decimal(38,19));  cast(e as decimal(4,2))
-- comparison
i = ii;  i == ii;  i <> ii;  i != ii;  i < ii;  i <= ii;  i > ii;  i >= ii;  i <=> ii;  i is distinct from ii;  i is not distinct from ii
y < l;  s = i;  i < d;  l = d;  f = d;  f < ff;  d = dd;  d <> dd;  d < dd;  d <= dd;  d > dd;  d >= dd;  d <=> dd;  f <=> ff;  l > f
c = cc;  c <> cc;  c < cc;  c <= cc;  c > cc;  c <=> cc;  o = oo;  o < oo;  o <=> oo;  t = tt;  t < tt;  a = aa;  a >= aa;  t < a;  a = t
b = bb;  b < bb;  b <=> bb;  c = 'a';  c > 'ab';  i = '7';  c = 7;  d > '1.5';  t = '2024-02-29';  t < DATE '2024-03-01';  o = 'true'
a > '2024-02-29 12:00:00';  a > TIMESTAMP '2024-02-29 12:00:00';  a < DATE '2024-02-29';  c = d;  c < t;  c = i;  null = i;  i <=> null
i between 0 and 7;  i not between ii and 7;  d between 0 and 2;  c between 'a' and 'b';  t between '2024-01-01' and '2024-12-31'
a between DATE '2020-01-01' and TIMESTAMP '2024-12-31 00:00:00';  not i between 1 and 2
i in (1, 7, 1000);  i not in (1, 7);  i in (1, null);  i not in (1, null);  i in (ii, 7);  c in ('a', 'ab', '');  d in (1.5, 0);  o in (true)
d in (0.0D, double('nan'));  l in (1, 3000000000);  t in (DATE '2024-02-29', DATE '1970-01-01');  i in (l, d);  c in (cc, 'a');  i in ('7')
y in (1, 300);  a in (TIMESTAMP '1970-01-01 00:00:00');  i in (10 div ii, 7);  d in (dd)
-- logic
o and oo;  o or oo;  not o;  ! o;  o and not oo;  o and null;  o or null;  not null;  o is true;  o is false;  o is not true;  o is not false
o is null;  i is null;  c is not null;  d is null;  isnull(c);  isnotnull(c);  i > 0 is true;  i = ii is null;  o = oo and i < 7 or d > 1
i > 0 and 10 div i > 1;  i = 0 or 10 div i > 1;  i <> 0 and 10 / i > 1;  10 div i > 1 and o;  o or 10 div i > 1;  o and (i div 0 = 1)
o is distinct from oo;  (o and oo) is null;  equal_null(i, ii);  c and o;  not c
-- choice
case when o then i when oo then l else 5 end;  case when o then i end;  case i when 0 then 'zero' when 1 then 'one' else c end
case when i = 0 then 0 else 10 div i end;  case when o then 10 div i else ii end;  case i when ii then d when 7 then f end
case when o then 1 else null end;  case when 10 div i > 0 then 1 else 2 end;  if(o, i, ii);  if(i > 0, 'pos', 'neg');  if(i = 0, 0, 10 div i)
if(o, null, c);  coalesce(i, ii);  coalesce(i, l, 0);  coalesce(i, 10 div ii);  coalesce(c, 'none');  coalesce(null, i);  coalesce(d, i)
nvl(i, 0);  ifnull(c, cc);  nvl(t, a);  nullif(i, ii);  nullif(i, 7);  nullif(d, dd);  nullif(c, '');  nullif(i, 7.0);  nvl2(i, c, cc)
nvl2(i, ii, d);  nvl2(o, 10 div i, 0);  greatest(i, ii);  least(i, ii);  greatest(d, dd);  least(d, dd);  greatest(f, ff);  least(i, l, d)
greatest(c, cc);  least(t, tt);  greatest(t, a);  greatest(i, null, 5);  greatest(10 div i, ii);  coalesce(o, oo, true);  least(o, oo)
nvl(c, i);  coalesce(i, '5');  coalesce(b, bb);  greatest(b, bb)
-- casts
cast(y as smallint);  cast(i as bigint);  cast(i as tinyint);  cast(l as int);  cast(l as smallint);  cast(i as float);  cast(l as float)
cast(l as double);  cast(i as string);  cast(l as string);  cast(i as boolean);  cast(i as timestamp);  cast(l as timestamp);  y::int;  l::tinyint
cast(d as int);  cast(d as bigint);  cast(d as tinyint);  cast(d as smallint);  cast(f as int);  cast(f as bigint);  cast(d as float)
cast(f as double);  cast(d as boolean);  cast(f as boolean);  cast(f as tinyint)
cast(c as int);  cast(c as bigint);  cast(c as tinyint);  cast(c as smallint);  cast(c as double);  cast(c as float);  cast(c as boolean)
cast(c as date);  cast(c as binary);  cast(c as string);  c::int;  int(c);  double(c);  string(i);  bigint(d);  boolean(c);  date(c);  date(a)
try_cast(c as int);  try_cast(c as double);  try_cast(c as date);  try_cast(c as boolean);  try_cast(d as int);  try_cast(l as int)
cast(o as int);  cast(o as bigint);  cast(o as double);  cast(o as string);  cast(t as string);  cast(t as timestamp);  cast(a as string)
cast(a as date);  cast(a as bigint);  cast(a as int);  cast(a as double);  cast(a as tinyint);  try_cast(a as smallint);  timestamp(t)
cast('12' as int);  cast('x' as int);  try_cast('x' as int);  cast('2024-02-30' as date);  cast(1.5 as int);  cast(300 as tinyint);  float(0.1)
-- text
concat(c, cc);  concat(c, i, o);  c || cc;  c || '-' || i;  c || 1 + 2;  concat(c);  concat(c, null);  concat_ws(',', c, cc);  concat_ws(c, 'x', cc)
concat_ws('-', i, c, t);  concat_ws(',');  upper(c);  lower(c);  ucase(c);  lcase(i);  trim(c);  ltrim(c);  rtrim(c);  btrim(c);  trim('a' from c)
trim(both 'ab' from c);  trim(leading 'a' from c);  trim(trailing cc from c);  ltrim('a', c);  btrim(c, 'ab');  trim('' from c)
length(c);  char_length(c);  character_length(c);  len(c);  length(i);  length(o);  length(t);  substring(c, 2);  substring(c, 2, 3)
substring(c, 0, 2);  substring(c, -2, 1);  substring(c, -20, 18);  substring(c, i, ii);  substring(c from 2 for 2);  substr(c, 2, 1)
substring(c, 2, -1);  substring(c, i);  left(c, 2);  left(c, i);  right(c, 2);  right(c, i);  left(c, '1');  right(i, 2)
replace(c, 'a', 'bb');  replace(c, 'a');  replace(c, '', 'x');  replace(c, 'a', cc);  replace(c, ',', '$0');  startswith(c, 'a')
startswith(c, cc);  endswith(c, cc);  endswith(c, '');  contains(c, cc);  contains(c, 'b');  locate('b', c);  locate(cc, c);  locate('a', c, 2)
locate('', c);  locate(cc, c, 2);  locate('a', c, 0);  instr(c, 'b');  instr(c, cc);  position('x' in c);  position('b', c);  lpad(c, 5, 'xy');  rpad(c, 5, 'xy')
lpad(c, 3);  lpad(c, i % 10, cc);  rpad(c, 4, cc);  rpad(c, -1, 'x');  lpad(c, 5, '');  repeat(c, 3);  repeat(c, i % 8);  repeat(c, 0)
reverse(c);  split_part(c, ',', 2);  split_part(c, ',', -1);  split_part(c, cc, 1);  split_part(c, '.', i);  split_part(c, '', 1)
split_part(c, 'a', 0);  c like 'a%';  c like '%b';  c like '%b%';  c like 'a_';  c like '_';  c like '%';  c like '';  c like 'ab';  c like '%a%b%'
c like 'x\\_y';  c like '\\%';  c not like 'a%';  c like 'x!_y' escape '!';  c ilike 'A%';  c ilike '%WORLD';  c not ilike 'a';  i like '7%'
c like '_%_';  c like 'a_b';  like(c, 'a%');  c like '%𝔘%';  c ilike 's_ra%';  c like 'h%o %d'
c rlike 'a';  c rlike '^a';  c rlike 'b$';  c rlike '^[a-z]+$';  c rlike '\\\\d+';  c rlike '^\\\\s';  c rlike 'v(\\\\d)\\\\.(\\\\d)';  c rlike '^.$'
c rlike '.{3}';  c rlike 'a|b';  c rlike '(?:ab)+';  c rlike '[^a-z]';  c rlike '^\\\\w+$';  c regexp 'x';  regexp_like(c, 'a.c');  c rlike ''
c not rlike 'a';  c rlike 'a.b';  c rlike '\\\\S\\\\D'
-- time
year(t);  month(t);  day(t);  dayofmonth(t);  quarter(t);  dayofyear(t);  dayofweek(t);  weekday(t);  weekofyear(t);  year(a);  month(a)
day(a);  quarter(a);  dayofyear(a);  dayofweek(a);  weekday(a);  weekofyear(a);  hour(a);  minute(a);  second(a);  year('2024-02-29')
extract(year from t);  extract(hour from a);  extract(dow from a);  extract(week from t);  extract(doy from t);  extract(minute from a)
date_trunc('second', a);  date_trunc('minute', a);  date_trunc('hour', a);  date_trunc('day', a);  date_trunc('WEEK', a);  date_trunc('month', a)
date_trunc('quarter', a);  date_trunc('year', a);  date_trunc('millisecond', a);  date_trunc('microsecond', a);  date_trunc('DD', a)
date_trunc('mon', a);  date_trunc('yyyy', a);  trunc(t, 'month');  trunc(t, 'year');  trunc(t, 'week');  trunc(t, 'quarter');  trunc(a, 'mm')
date_add(t, i);  date_add(t, 1);  date_sub(t, 1);  date_sub(t, i);  date_add(a, 7);  t + 1;  1 + t;  t - 1;  t + y;  datediff(t, tt)
datediff(a, t);  date_diff(t, tt);  to_date(a);  to_date(t);  to_date(c);  unix_date(t);  unix_timestamp(a);  unix_timestamp(t);  unix_micros(a)
unix_millis(a);  unix_seconds(a);  timestamp_seconds(l);  timestamp_seconds(i);  timestamp_millis(l);  timestamp_micros(l);  timestamp_micros(i)
a + interval 1 day;  a - interval 1 day;  a + interval '90' minutes;  interval 1 hour + a;  a - interval 1 day 2 hours;  a + interval '1 day 2 hours'
a + interval -1 week;  a + interval 1.5 seconds;  a - interval 1 microsecond;  a + -interval 1 millisecond;  a - interval '2' days
a + interval 1 second > aa;  unix_seconds(date_trunc('hour', a)) % 24;  unix_micros(a) div 1000000;  hour(a) * 60 + minute(a)
"""


def _expressions() -> list[str]:
    lines = (line for line in EXPRESSIONS.splitlines() if line and not line.startswith("--"))
    return [text.strip() for line in lines for text in re.split(r";  ", line)]


def _rows() -> list[dict[str, Any]]:
    """Every pair of values of each type, the types side by side."""
    total = max(len(values) for values in VALUES.values()) ** 2
    columns: dict[str, list[object]] = {}
    for kind, values in VALUES.items():
        count = len(values)
        columns[NAMES[kind]] = [values[at % count] for at in range(total)]
        columns[NAMES[kind] * 2] = [values[at // count % count] for at in range(total)]
    return [{name: column[at] for name, column in columns.items()} for at in range(total)]


def to_frame(rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    physical = {"date": pl.Int32(), "timestamp": pl.Int64()}
    return pl.DataFrame(
        pl.Series(name, [row[name] for row in rows], dtype=physical.get(kind, dtype(kind))).cast(dtype(kind))
        for name, kind in SCHEMA
    )


class Truth:
    """The rows as a table of Spark, and the answers of the three."""

    def __init__(self, spark: SparkSession, rows: Sequence[dict[str, Any]], folder: Path) -> None:
        self.spark, self.rows, self.frame = spark, rows, to_frame(rows)
        path = folder / "rows.parquet"
        self.frame.with_row_index("row_id").write_parquet(path)
        self.table: DataFrame = spark.read.parquet(str(path))

    def types(self, texts: Sequence[str]) -> list[str]:
        schema = self.table.selectExpr(*(f"{text} AS x{at}" for at, text in enumerate(texts))).schema
        return [field.dataType.simpleString() for field in schema]

    def spark_answers(self, bounds: Sequence[Bound]) -> list[list[object]]:
        """Row by row, the value of each expression, or FAILS."""
        from pyspark.sql import Column, functions

        assert self.spark._jvm is not None
        parser = self.spark._jsparkSession.sessionState().sqlParser()
        catalyst = self.spark._jvm.org.apache.spark.sql.catalyst.expressions
        utils = self.spark._jvm.org.apache.spark.sql.classic.ExpressionUtils
        columns = []
        for at, bound in enumerate(bounds):
            plain = {"date": "unix_date({})", "timestamp": "unix_micros({})"}.get(str(bound.type), "{}")
            tree = parser.parseExpression(f"struct({plain.format(bound.text)} AS v)")
            columns.append(Column(utils.column(catalyst.TryEval(tree))).alias(f"x{at}"))
        rows = sorted(self.table.select(functions.col("row_id"), *columns).collect(), key=lambda row: row[0])
        return [[FAILS if row[at + 1] is None else row[at + 1][0] for row in rows] for at in range(len(bounds))]

    def model_answers(self, bound: Bound) -> list[object]:
        known: dict[tuple[str, ...], object] = {}
        answers = []
        for row in self.rows:
            key = tuple(repr(row[name]) for name in sorted(bound.columns))
            if key not in known:
                known[key] = model_answer(bound, row)
            answers.append(known[key])
        return answers


def model_answer(bound: Bound, row: dict[str, Any]) -> object:
    """The model's value, or FAILS with the reason."""
    try:
        return evaluate(bound, row)
    except RowError as error:
        return (FAILS, error.message)


def kernel_answers(bound: Bound, frame: pl.DataFrame) -> list[object]:
    """The kernel's values, or FAILS with the reasons."""
    compiled = compile(bound)
    error = pl.lit(None, dtype=pl.String) if compiled.error is None else compiled.error
    found = frame.with_columns(value__=compiled.value, error__=error)
    assert found.schema["value__"] == dtype(str(bound.type)), f"{bound.text}: {found.schema['value__']}, not {bound.type}"
    values = found["value__"]
    plain = (values.to_physical() if bound.type in ("date", "timestamp") else values).to_list()
    return [value if reason is None else (FAILS, reason) for value, reason in zip(plain, found["error__"], strict=True)]


def equal(left: object, right: object, *, loosely: bool = False) -> bool:
    """Exact, to the sign of zero; with NaN equal to itself."""
    if isinstance(left, float) and isinstance(right, float):
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        if loosely:
            return math.isclose(left, right, rel_tol=1e-12, abs_tol=1e-300)
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    return type(left) is type(right) and left == right


def differences(truth: Truth, bounds: Sequence[Bound]) -> Iterator[str]:
    """One line for each expression on which the three do not agree, with the first such row."""
    for bound, expected in zip(bounds, truth.spark_answers(bounds), strict=True):
        loosely = TRANSCENDENTAL.search(bound.text) is not None
        model, kernel = truth.model_answers(bound), kernel_answers(bound, truth.frame)
        for row, of_spark, of_model, of_kernel in zip(truth.rows, expected, model, kernel, strict=True):
            wanted = of_model if isinstance(of_model, tuple) and of_spark == FAILS else of_spark
            if equal(of_model, wanted, loosely=loosely) and equal(of_kernel, wanted, loosely=loosely):
                continue
            inputs = {name: row[name] for name in sorted(bound.columns)}
            yield f"{bound.text} on {inputs}: Spark {of_spark!r}, model {of_model!r}, kernel {of_kernel!r}"
            break


@pytest.fixture(scope="module")
def truth(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Truth:
    # Common subexpressions would be evaluated outside of TryEval.
    spark.conf.set("spark.sql.subexpressionElimination.enabled", "false")
    return Truth(spark, _rows(), tmp_path_factory.mktemp("expressions"))


def test_there_are_enough_expressions_and_all_are_inside_the_kernel() -> None:
    bounds = {text: bind(text, SCHEMA) for text in _expressions()}
    assert len(bounds) >= 250
    assert {text: bound.outside for text, bound in bounds.items() if bound.outside} == {}


def test_every_expression_has_the_type_that_spark_gives_it(truth: Truth) -> None:
    texts = _expressions()
    ours = [bind(text, SCHEMA).type for text in texts]
    assert [(text, mine) for text, mine in zip(texts, ours, strict=True)] == list(zip(texts, truth.types(texts), strict=True))


@pytest.mark.parametrize("part", range(10))
def test_every_expression_has_the_value_that_spark_gives_it_on_edge_values(truth: Truth, part: int) -> None:
    bounds = [bound for text in _expressions()[part::10] if not (bound := bind(text, SCHEMA)).outside]
    found = list(differences(truth, bounds))
    assert not found, "\n".join(found)
