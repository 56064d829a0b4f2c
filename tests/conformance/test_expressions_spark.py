"""Spark SQL is the truth: every expression of the subset, on edge values, as Spark, the model and the kernel see it.

Spark wraps each expression in its own TryEval, so that one job evaluates many expressions on many rows, also those that
fail: the answer is an array of one value, and null where the evaluation failed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from penstock.model.expressions import Bound, bind
from penstock.model.types import Schema
from tests.kernel.test_expressions_support import (
    FAILS,
    SCHEMA,
    Row,
    edge_rows,
    equal,
    kernel_answers,
    model_answer,
    random_rows,
    random_typed_expression,
    to_frame,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

#: Java, C and Rust agree on these only to the last bit or two.
TRANSCENDENTAL = re.compile(r"(?i)\b(exp|ln|log|log10|log2|pow|power)\(")
#: How many expressions one query of Spark has: with more, the generated code grows too large to be compiled.
BATCH = 75
RANDOM = 1_500 if os.environ.get("PENSTOCK_DEEP") == "1" else 150

#: Over two columns of each type: a tinyint y and yy, a smallint s, int i, bigint l, float f, double d, decimal(10,2) e,
#: string c, boolean o, date t, timestamp a and binary b.
EXPRESSIONS = """
-- columns and literals
i;  `C`;  o;  t;  a;  b;  e;  1;  -1;  3000000000;  -2147483648;  -9223372036854775808;  1L;  5S;  -128Y;  1.5;  -0.05
.5;  1e3;  1.5D;  0.1F;  -1.5D;  'text';  "double";  'it''s';  'a' 'b';  'tab\\there';  '\\u00e9\\101\\\\';  r'raw\\n'
true;  x'0aFF';  DATE '2024-02-29';  TIMESTAMP '2024-02-29 12:34:56.789';  TIMESTAMP '2024-02-29T12:34:56Z'
TIMESTAMP '2024-02-29 12:00:00+02:00';  9223372036854775808;  99999999999.5;  cast(null as int);  -(5);  - -i
-- arithmetic of whole numbers
y + yy;  y - yy;  y * yy;  s + ss;  s - ss;  s * ss;  i + ii;  i - ii;  i * ii;  l + ll;  l - ll;  l * ll;  y + l
s * i;  i + l;  i + 1;  1 + i;  i - 1;  1 - i;  i + -1;  i - -1;  i * 2;  l + 1;  l - 1;  l * 2
l + -9223372036854775808;  y + 1Y;  y - 100Y;  l - -9223372036854775808;  100Y - y;  -y;  -s;  -i;  -l;  abs(y)
abs(s);  abs(i);  abs(l);  negative(i);  positive(i);  i / ii;  l / ll;  y / 2;  i / 0;  i % ii;  l % ll;  y % yy
s % 7;  i % -7;  l % 10;  i % 0;  i div ii;  l div ll;  y div yy;  i div 0;  l div -1;  l div 7;  mod(i, ii)
mod(l, 5);  pmod(i, ii);  pmod(l, ll);  pmod(y, yy);  pmod(i, 7);  pmod(i, -7);  pmod(s, ss);  try_add(i, ii)
try_add(l, ll);  try_subtract(i, ii);  try_multiply(l, ll);  try_divide(i, ii);  try_mod(i, ii);  try_add(y, yy)
try_add(i, ii div i);  try_multiply(s, ss);  try_divide(d, dd);  try_subtract(y, yy)
-- arithmetic of floats
f + ff;  f - ff;  f * ff;  f / ff;  d + dd;  d - dd;  d * dd;  d / dd;  f + d;  i + d;  l + d;  l * f;  i - f;  d * 2
d + 1.5;  f * 2;  -d;  -f;  abs(d);  abs(f);  d + 0;  0 + d;  d - 0;  0 - d;  f + 0F;  d * 0;  0 / d;  d / 0;  d / 2
d / 3;  d / 10;  d / (1 + 2);  d / if(o, 3, 7);  d / nvl(dd, 49);  1 / d;  d + e;  e / d;  f + 0.1;  d * 1.1;  i / 2.0D
ceil(d);  floor(d);  ceil(f);  floor(f);  ceil(i);  floor(l);  ceiling(y);  round(d);  round(d, 1);  round(d, 2)
round(d, 3);  round(i);  round(l, 2);  sqrt(d);  sqrt(i);  exp(d);  ln(d);  log(d);  log(2, d);  log(d, dd);  log10(d)
log2(d);  pow(d, dd);  power(i, 2);  pow(d, 0.5);  sign(d);  signum(i);  sign(f);  isnan(d);  isnan(f);  isnan(i)
nanvl(d, dd);  nanvl(d, 1);  nanvl(i, d);  exp(1);  sqrt(l);  sign(e);  log10(l)
-- decimals
e + ee;  e - ee;  e * ee;  e + 1;  1 - e;  e * 3;  e + i;  l * e;  i + 1.5;  l + 0.25;  i * 1.5;  1.5 * 1.5;  0.1 + 0.2
-e;  abs(e);  e = ee;  e < ee;  e > 1.5;  e >= 2;  e = 7;  i > 1.5;  i >= 1.5;  i < -0.5;  i <= 1000.0;  i = 7.0
i = 7.5;  i <=> 7.5;  1.5 < i;  l > 1.5;  y < 100.5;  d > 1.5;  d = 1.5;  f > 1.5;  f = 0.1;  e > d;  e = i;  e <=> ee
i <> 7.0;  l >= 9007199254740993.0;  1.5 = 1.50;  e in (1.5, 7);  i in (1.5, 7);  e between 0 and 2.55
i between 0.5 and 7.5;  greatest(e, ee);  least(e, 1.505);  coalesce(e, 0);  nvl(e, i);  if(o, e, 1)
case when o then 1.5 else 2 end;  nullif(e, 7);  cast(e as int);  cast(e as bigint);  cast(e as tinyint)
cast(e as double);  cast(e as float);  cast(e as string);  cast(e as boolean);  cast(e as decimal(12,4))
cast(e as decimal(10,1));  cast(e as decimal(3,1));  cast(e as decimal(20,0));  cast(i as decimal(12,2))
cast(i as decimal(5,2));  cast(l as decimal(20,0));  cast(l as decimal(18,0));  cast(y as decimal(3,0))
try_cast(e as decimal(3,2));  try_cast(e as tinyint);  cast(l as decimal(38,19));  cast(e as decimal(4,2))
-- comparison
i = ii;  i == ii;  i <> ii;  i != ii;  i < ii;  i <= ii;  i > ii;  i >= ii;  i <=> ii;  i is distinct from ii
i is not distinct from ii;  y < l;  s = i;  i < d;  l = d;  f = d;  f < ff;  d = dd;  d <> dd;  d < dd;  d <= dd
d > dd;  d >= dd;  d <=> dd;  f <=> ff;  l > f;  c = cc;  c <> cc;  c < cc;  c <= cc;  c > cc;  c <=> cc;  o = oo
o < oo;  o <=> oo;  t = tt;  t < tt;  a = aa;  a >= aa;  t < a;  a = t;  b = bb;  b < bb;  b <=> bb;  c = 'a'
c > 'ab';  i = '7';  c = 7;  d > '1.5';  t = '2024-02-29';  t < DATE '2024-03-01';  o = 'true'
a > '2024-02-29 12:00:00';  a > TIMESTAMP '2024-02-29 12:00:00';  a < DATE '2024-02-29';  c = d;  c < t;  c = i
null = i;  i <=> null;  i between 0 and 7;  i not between ii and 7;  d between 0 and 2;  c between 'a' and 'b'
t between '2024-01-01' and '2024-12-31';  a between DATE '2020-01-01' and TIMESTAMP '2024-12-31 00:00:00'
not i between 1 and 2;  i in (1, 7, 1000);  i not in (1, 7);  i in (1, null);  i not in (1, null);  i in (ii, 7)
c in ('a', 'ab', '');  d in (1.5, 0);  o in (true);  d in (0.0D, double('nan'));  l in (1, 3000000000)
t in (DATE '2024-02-29', DATE '1970-01-01');  i in (l, d);  c in (cc, 'a');  i in ('7');  y in (1, 300)
a in (TIMESTAMP '1970-01-01 00:00:00');  i in (10 div ii, 7);  d in (dd)
-- logic
o and oo;  o or oo;  not o;  ! o;  o and not oo;  o and null;  o or null;  not null;  o is true;  o is false
o is not true;  o is not false;  o is null;  i is null;  c is not null;  d is null;  isnull(c);  isnotnull(c)
i > 0 is true;  i = ii is null;  o = oo and i < 7 or d > 1;  i > 0 and 10 div i > 1;  i = 0 or 10 div i > 1
i <> 0 and 10 / i > 1;  10 div i > 1 and o;  o or 10 div i > 1;  o and (i div 0 = 1);  o is distinct from oo
(o and oo) is null;  equal_null(i, ii);  c and o;  not c
-- choice
case when o then i when oo then l else 5 end;  case when o then i end
case i when 0 then 'zero' when 1 then 'one' else c end;  case when i = 0 then 0 else 10 div i end
case when o then 10 div i else ii end;  case i when ii then d when 7 then f end;  case when o then 1 else null end
case when 10 div i > 0 then 1 else 2 end;  if(o, i, ii);  if(i > 0, 'pos', 'neg');  if(i = 0, 0, 10 div i)
if(o, null, c);  coalesce(i, ii);  coalesce(i, l, 0);  coalesce(i, 10 div ii);  coalesce(c, 'none');  coalesce(null, i)
coalesce(d, i);  nvl(i, 0);  ifnull(c, cc);  nvl(t, a);  nullif(i, ii);  nullif(i, 7);  nullif(d, dd);  nullif(c, '')
nullif(i, 7.0);  nvl2(i, c, cc);  nvl2(i, ii, d);  nvl2(o, 10 div i, 0);  greatest(i, ii);  least(i, ii)
greatest(d, dd);  least(d, dd);  greatest(f, ff);  least(i, l, d);  greatest(c, cc);  least(t, tt);  greatest(t, a)
greatest(i, null, 5);  greatest(10 div i, ii);  coalesce(o, oo, true);  least(o, oo);  nvl(c, i);  coalesce(i, '5')
coalesce(b, bb);  greatest(b, bb)
-- casts
cast(y as smallint);  cast(i as bigint);  cast(i as tinyint);  cast(l as int);  cast(l as smallint);  cast(i as float)
cast(l as float);  cast(l as double);  cast(i as string);  cast(l as string);  cast(i as boolean)
cast(i as timestamp);  cast(l as timestamp);  y::int;  l::tinyint;  cast(d as int);  cast(d as bigint)
cast(d as tinyint);  cast(d as smallint);  cast(f as int);  cast(f as bigint);  cast(d as float);  cast(f as double)
cast(d as boolean);  cast(f as boolean);  cast(f as tinyint);  cast(c as int);  cast(c as bigint);  cast(c as tinyint)
cast(c as smallint);  cast(c as double);  cast(c as float);  cast(c as boolean);  cast(c as date);  cast(c as binary)
cast(c as string);  c::int;  int(c);  double(c);  string(i);  bigint(d);  boolean(c);  date(c);  date(a)
try_cast(c as int);  try_cast(c as double);  try_cast(c as date);  try_cast(c as boolean);  try_cast(d as int)
try_cast(l as int);  cast(o as int);  cast(o as bigint);  cast(o as double);  cast(o as string);  cast(t as string)
cast(t as timestamp);  cast(a as string);  cast(a as date);  cast(a as bigint);  cast(a as int);  cast(a as double)
cast(a as tinyint);  try_cast(a as smallint);  timestamp(t);  cast('12' as int);  cast('x' as int)
try_cast('x' as int);  cast('2024-02-30' as date);  cast(1.5 as int);  cast(300 as tinyint);  float(0.1)
-- text
concat(c, cc);  concat(c, i, o);  c || cc;  c || '-' || i;  c || 1 + 2;  concat(c);  concat(c, null)
concat_ws(',', c, cc);  concat_ws(c, 'x', cc);  concat_ws('-', i, c, t);  concat_ws(',');  upper(c);  lower(c)
ucase(c);  lcase(i);  trim(c);  ltrim(c);  rtrim(c);  btrim(c);  trim('a' from c);  trim(both 'ab' from c)
trim(leading 'a' from c);  trim(trailing cc from c);  ltrim('a', c);  btrim(c, 'ab');  trim('' from c);  length(c)
char_length(c);  character_length(c);  len(c);  length(i);  length(o);  length(t);  substring(c, 2)
substring(c, 2, 3);  substring(c, 0, 2);  substring(c, -2, 1);  substring(c, -20, 18);  substring(c, i, ii)
substring(c from 2 for 2);  substr(c, 2, 1);  substring(c, 2, -1);  substring(c, i);  left(c, 2);  left(c, i)
right(c, 2);  right(c, i);  left(c, '1');  right(i, 2);  replace(c, 'a', 'bb');  replace(c, 'a');  replace(c, '', 'x')
replace(c, 'a', cc);  replace(c, ',', '$0');  startswith(c, 'a');  startswith(c, cc);  endswith(c, cc)
endswith(c, '');  contains(c, cc);  contains(c, 'b');  locate('b', c);  locate(cc, c);  locate('a', c, 2)
locate('', c);  locate(cc, c, 2);  locate('a', c, 0);  instr(c, 'b');  instr(c, cc);  position('x' in c)
position('b', c);  lpad(c, 5, 'xy');  rpad(c, 5, 'xy');  lpad(c, 3);  lpad(c, i % 10, cc);  rpad(c, 4, cc)
rpad(c, -1, 'x');  lpad(c, 5, '');  repeat(c, 3);  repeat(c, i % 8);  repeat(c, 0);  reverse(c);  split_part(c, ',', 2)
split_part(c, ',', -1);  split_part(c, cc, 1);  split_part(c, '.', i);  split_part(c, '', 1);  split_part(c, 'a', 0)
c like 'a%';  c like '%b';  c like '%b%';  c like 'a_';  c like '_';  c like '%';  c like '';  c like 'ab'
c like '%a%b%';  c like 'x\\_y';  c like '\\%';  c not like 'a%';  c like 'x!_y' escape '!';  c ilike 'A%'
c ilike '%WORLD';  c not ilike 'a';  i like '7%';  c like '_%_';  c like 'a_b';  like(c, 'a%');  c like '%𝔘%'
c ilike 's_ra%';  c like 'h%o %d';  c rlike 'a';  c rlike '^a';  c rlike 'b$';  c rlike '^[a-z]+$';  c rlike '\\\\d+'
c rlike '^\\\\s';  c rlike 'v(\\\\d)\\\\.(\\\\d)';  c rlike '^.$';  c rlike '.{3}';  c rlike 'a|b';  c rlike '(?:ab)+'
c rlike '[^a-z]';  c rlike '^\\\\w+$';  c regexp 'x';  regexp_like(c, 'a.c');  c rlike '';  c not rlike 'a'
c rlike 'a.b';  c rlike '\\\\S\\\\D'
-- time
year(t);  month(t);  day(t);  dayofmonth(t);  quarter(t);  dayofyear(t);  dayofweek(t);  weekday(t);  weekofyear(t)
year(a);  month(a);  day(a);  quarter(a);  dayofyear(a);  dayofweek(a);  weekday(a);  weekofyear(a);  hour(a)
minute(a);  second(a);  year('2024-02-29');  extract(year from t);  extract(hour from a);  extract(dow from a)
extract(week from t);  extract(doy from t);  extract(minute from a);  date_trunc('second', a);  date_trunc('minute', a)
date_trunc('hour', a);  date_trunc('day', a);  date_trunc('WEEK', a);  date_trunc('month', a)
date_trunc('quarter', a);  date_trunc('year', a);  date_trunc('millisecond', a);  date_trunc('microsecond', a)
date_trunc('DD', a);  date_trunc('mon', a);  date_trunc('yyyy', a);  trunc(t, 'month');  trunc(t, 'year')
trunc(t, 'week');  trunc(t, 'quarter');  trunc(a, 'mm');  date_add(t, i);  date_add(t, 1);  date_sub(t, 1)
date_sub(t, i);  date_add(a, 7);  t + 1;  1 + t;  t - 1;  t + y;  datediff(t, tt);  datediff(a, t);  date_diff(t, tt)
to_date(a);  to_date(t);  to_date(c);  unix_date(t);  unix_timestamp(a);  unix_timestamp(t);  unix_micros(a)
unix_millis(a);  unix_seconds(a);  timestamp_seconds(l);  timestamp_seconds(i);  timestamp_millis(l)
timestamp_micros(l);  timestamp_micros(i);  a + interval 1 day;  a - interval 1 day;  a + interval '90' minutes
interval 1 hour + a;  a - interval 1 day 2 hours;  a + interval '1 day 2 hours';  a + interval -1 week
a + interval 1.5 seconds;  a - interval 1 microsecond;  a + -interval 1 millisecond;  a - interval '2' days
a + interval 1 second > aa;  unix_seconds(date_trunc('hour', a)) % 24;  unix_micros(a) div 1000000
hour(a) * 60 + minute(a)
"""
#: Over arrays, maps and structs.
NESTED_SCHEMA = Schema.parse(
    "c string, i int, l bigint, xs array<int>, ts array<string>, ds array<double>, m map<string,int>, "
    "k map<int,string>, p struct<a:int,B:string>, ps array<struct<a:int,b:string>>, q struct<in:struct<a:int>>"
)
NESTED = """
split(c, ' ');  split(c, ',');  split(c, 'ab');  split(c, '\\\\.');  split(c, '[^a-z]+');  split(c, '\\\\s+')
split(c, 'a|b');  split(c, ' ', -1);  split(c, ', ?');  split(i, '1');  split(c, '[,.]');  split(c, '𝔘')
split(lower(c), '[ab]')[0];  size(split(c, ' '));  size(xs);  size(m);  cardinality(ts);  array_size(xs);  xs
ts;  p;  ps;  xs[0];  xs[i];  ts[1];  ds[0];  ps[0];  ps[0].a;  xs[-1];  xs[0] + 1;  xs[size(xs) - 1]
get(xs, 0);  get(xs, i);  get(ts, -1);  element_at(xs, 1);  element_at(xs, -1);  element_at(xs, i)
element_at(ts, 0);  element_at(xs, 9);  element_at(split(c, ' '), -1);  array(1, 2);  array(i, 2);  array(i, l)
array(c, 'x');  array(i, null);  (array(c))[0];  array(xs[0], i);  size(array(i, i, i));  array_contains(xs, 1)
array_contains(xs, i);  array_contains(ts, c);  array_contains(ds, 0.0D);  array_contains(ds, double('nan'))
array_contains(split(c, ','), 'b');  array_contains(array(1, null), i);  array_contains(xs, 1Y)
array_join(ts, '-');  array_join(split(c, ' '), c);  array_distinct(xs);  array_distinct(ts);  m['a'];  m[c]
m['z'];  k[1];  k[i];  element_at(m, 'a');  element_at(k, i);  map_keys(m);  map_values(m);  map_entries(m)
map_contains_key(m, 'a');  map_contains_key(k, i);  size(map_keys(k));  p.a;  p.b;  P.B;  p.a + 1;  ps.a;  ps.b
size(ps.b);  q.in.a;  (p).a;  named_struct('x', i, 'y', c);  named_struct('x', i).x
named_struct('x', 1, 'y', xs).y[0];  if(i > 0, xs, null);  coalesce(xs, array(1))
coalesce(p, named_struct('a', 1, 'B', 'x'));  p is null;  xs is not null;  m is null;  nvl(ts, split(c, ' '))
case when i = 1 then ts when i = 0 then split(c, ',') end;  xs = array(1, 2);  array_contains(xs, p.a)
"""
NESTED_TEXTS = [text for line in NESTED.strip().split("\n") for text in line.split(";  ")]
TEXTS = [text for line in EXPRESSIONS.split("\n") if not line.startswith("--") for text in line.split(";  ") if text]


class Truth:
    """Rows as a table of Spark, and what Spark makes of them."""

    def __init__(self, spark: SparkSession, rows: Sequence[Row], folder: Path, schema: Schema = SCHEMA) -> None:
        self.spark, self.rows, self.frame = spark, rows, to_frame(rows, schema)
        path = folder / "rows.parquet"
        self.frame.with_row_index("row_id").write_parquet(path)
        self.table: DataFrame = spark.read.parquet(str(path))

    def types(self, texts: Sequence[str]) -> list[str]:
        schema = self.table.selectExpr(*(f"{text} AS x{at}" for at, text in enumerate(texts))).schema
        return [field.dataType.simpleString() for field in schema]

    def answers(self, bounds: Sequence[Bound]) -> list[list[object]]:
        """For each expression its value on each row, or FAILS. Dates and timestamps are counted from 1970."""
        from pyspark.sql import Column, functions

        assert self.spark._jvm is not None
        parser = self.spark._jsparkSession.sessionState().sqlParser()
        catalyst = self.spark._jvm.org.apache.spark.sql.catalyst.expressions
        utils = self.spark._jvm.org.apache.spark.sql.classic.ExpressionUtils
        columns = []
        for at, bound in enumerate(bounds):
            plain = {"date": "unix_date({})", "timestamp": "unix_micros({})"}.get(str(bound.type), "{}")
            tree = parser.parseExpression(f"array({plain.format(bound.text)})")
            columns.append(Column(utils.column(catalyst.TryEval(tree))).alias(f"x{at}"))
        found = self.table.select(functions.col("row_id"), *columns).toArrow().sort_by("row_id")
        return [[FAILS if cell is None else cell[0] for cell in column.to_pylist()] for column in found.columns[1:]]

    def differences(self, bounds: Sequence[Bound]) -> Iterator[str]:
        """One line for each expression on which the three do not agree, with the first such row."""
        for bound, of_spark in zip(bounds, self.answers(bounds), strict=True):
            loosely = TRANSCENDENTAL.search(bound.text) is not None
            of_kernel, of_model = kernel_answers(bound, self.frame), model_answers(bound, self.rows)
            for row, truth, model, kernel in zip(self.rows, of_spark, of_model, of_kernel, strict=True):
                wanted = model if isinstance(model, tuple) and truth == FAILS else truth
                if not equal(model, wanted, loosely=loosely) or not equal(kernel, wanted, loosely=loosely):
                    inputs = {name: row[name] for name in sorted(bound.columns)}
                    yield f"{bound.text} on {inputs}: Spark {truth!r}, model {model!r}, kernel {kernel!r}"
                    break


def model_answers(bound: Bound, rows: Sequence[Row]) -> list[object]:
    known: dict[tuple[str, ...], object] = {}
    keys = [tuple(repr(row[name]) for name in sorted(bound.columns)) for row in rows]
    for key, row in zip(keys, rows, strict=True):
        if key not in known:
            known[key] = model_answer(bound, row)
    return [known[key] for key in keys]


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """Nothing is evaluated outside of TryEval: no common subexpression, no constant while the query is planned.

    And the optimizer drops nothing, as it may with something that fails if only its nullness is asked for.
    """
    rules = (
        "NullPropagation",
        "ConstantFolding",
        "BooleanSimplification",
        "SimplifyConditionals",
        "SimplifyCaseConversionExpressions",  # makes upper(lower(c)) upper(c), which is not the same for 'İ'
        "ReorderAssociativeOperator",  # makes i + 1 + -1 i + 0, which cannot overflow, and try_add(i, i) + 1 fail
    )
    settings = {
        "spark.sql.subexpressionElimination.enabled": "false",
        "spark.sql.alwaysInlineCommonExpr": "true",
        "spark.sql.optimizer.excludedRules": ",".join(
            f"org.apache.spark.sql.catalyst.optimizer.{rule}" for rule in rules
        ),
    }
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, setting in settings.items():
        spark.conf.set(name, setting)
    yield spark
    for name, setting in before.items():
        spark.conf.unset(name) if setting is None else spark.conf.set(name, setting)


@pytest.fixture(scope="module")
def truth(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Truth:
    return Truth(session, edge_rows(), tmp_path_factory.mktemp("expressions"))


def test_there_are_enough_expressions_and_all_are_inside_the_kernel() -> None:
    assert len(set(TEXTS)) >= 250
    assert {text: bind(text, SCHEMA).outside for text in TEXTS if bind(text, SCHEMA).outside} == {}


def test_every_expression_has_the_type_that_spark_gives_it(truth: Truth) -> None:
    ours = {text: bind(text, SCHEMA).type for text in TEXTS}
    assert ours == dict(zip(TEXTS, truth.types(TEXTS), strict=True))


@pytest.mark.parametrize("start", range(0, len(TEXTS), BATCH))
def test_every_expression_has_the_value_that_spark_gives_it_on_edge_values(truth: Truth, start: int) -> None:
    found = list(truth.differences([bind(text, SCHEMA) for text in TEXTS[start : start + BATCH]]))
    assert not found, "\n".join(found)


def test_random_expressions_have_the_values_that_spark_gives_them(session: SparkSession, tmp_path: Path) -> None:
    random = Random(20_24)
    truth = Truth(session, random_rows(random, 200), tmp_path)
    texts = [random_typed_expression(random) for _ in range(RANDOM)]
    for start in range(0, RANDOM, BATCH):
        bounds = [bind(text, SCHEMA) for text in texts[start : start + BATCH]]
        assert [bound.type for bound in bounds] == truth.types([bound.text for bound in bounds])
        found = list(truth.differences(bounds))
        assert not found, "\n".join(found)


def nested_rows() -> list[Row]:
    """Edge values of arrays, maps and structs, side by side."""
    values: dict[str, list[object]] = {
        "c": [None, "", " ", "a b  c", "a,b, c", "ab.c.", " a", "a ", "𝔘x𝔘", "A1b22c", "a\tb\nc", ",", "ab"],
        "i": [None, 0, 1, -1, 2, 7, -2],
        "l": [None, 0, 1, -1, 2**40],
        "xs": [None, [], [1], [1, 2, 1], [None], [None, 1], [7, None, 2, None]],
        "ts": [None, [], ["a"], ["", None, "b"], ["b", "b", None, None], ["x", "y", "z"]],
        "ds": [None, [], [0.0], [-0.0, 1.5], [float("nan")], [None, 2.5]],
        "m": [None, {}, {"a": 1}, {"b": 2, "a": None}, {"": 3}],
        "k": [None, {}, {1: "x"}, {0: None, -1: "y", 2: "z"}],
        "p": [None, {"a": None, "B": None}, {"a": 1, "B": "b"}, {"a": 7, "B": None}],
        "ps": [None, [], [{"a": 1, "b": "x"}], [None, {"a": None, "b": "y"}]],
        "q": [None, {"in": None}, {"in": {"a": None}}, {"in": {"a": 3}}],
    }
    random = Random(7)
    return [{name: random.choice(column) for name, column in values.items()} for _ in range(400)]


def test_expressions_of_arrays_maps_and_structs_have_types_and_values_of_spark(
    session: SparkSession, tmp_path: Path
) -> None:
    truth = Truth(session, nested_rows(), tmp_path, NESTED_SCHEMA)
    bounds = [bind(text, NESTED_SCHEMA) for text in NESTED_TEXTS]
    assert {bound.text: bound.outside for bound in bounds if bound.outside} == {}
    assert {text: bound.type for text, bound in zip(NESTED_TEXTS, bounds, strict=True)} == dict(
        zip(NESTED_TEXTS, truth.types(NESTED_TEXTS), strict=True)
    )
    found = [
        line for start in range(0, len(bounds), BATCH) for line in truth.differences(bounds[start : start + BATCH])
    ]
    assert not found, "\n".join(found)
