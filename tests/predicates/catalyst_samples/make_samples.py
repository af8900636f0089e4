"""Writes what Spark's planner says of many conditions, for the tests of `predicates.catalyst`.

Run it once for each Spark version: `python make_samples.py` writes `spark-<version>.json` beside itself.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from anabranch.spark.extension.compiled import load_extension

SCHEMA = (
    "b boolean, t tinyint, sh smallint, i int, l bigint, f float, d double, dec decimal(10,2), big decimal(38,10), "
    "s string, ch char(5), vc varchar(10), bin binary, dt date, ts timestamp, ntz timestamp_ntz, "
    "st struct<x: int, `in`: struct<y: string, z: timestamp>>, arr array<int>, m map<string, int>, `odd name` int, "
    "ci string collate UTF8_LCASE"
)
CONDITIONS = """
b
NOT b
b = true
b IS NULL
t = 1
t = 1000
sh < 2S
i = 5
5 = i
i <> 5
i <=> 5
i <=> NULL
NOT (i <=> 5)
i < 5 AND i >= -3
i = 1 OR l = 2
NOT (i = 1 OR l > 2)
i IN (1, 2, 3)
i IN (1, NULL)
i NOT IN (1, 2)
i IN (1,2,3,4,5,6,7,8,9,10,11,12)
s IN ('a','b','c','d','e','f','g','h','i','j','k','l')
i BETWEEN 1 AND 10
i = l
i = 9999999999
l = 5
l = 9223372036854775807
l > 1.5
i > 1.5
i = 2.0D
l = 2.0D
f = 1.5
f > CAST(1.1 AS FLOAT)
f = 1.1D
d = CAST('NaN' AS DOUBLE)
d > CAST('Infinity' AS DOUBLE)
d < 1e300
d = -0.0D
isnan(d)
dec = 1.23
dec > 1.234
dec < 100
dec = 1.5D
big = 1234567890123456789.0123456789
s = 'a'
s = 'it''s "quoted" \\u00e9 \\U0001F600 \\n tab\\t'
s > 'zzz'
s LIKE 'abc%'
s LIKE 'abc%def'
s LIKE '%abc'
s LIKE 'abc'
s LIKE 'a_c%'
s NOT LIKE 'abc%'
startswith(s, 'x')
startswith(s, i)
substring(s, 1, 3) = 'abc'
substr(s, 0, 2) = 'ab'
left(s, 2) = 'ab'
upper(s) = 'A'
s = i
ch = 'ab'
vc = 'ab'
bin = X'00ff'
bin > X'61'
dt = DATE'2024-02-29'
dt = '2024-02-29'
dt > DATE'0001-01-01'
dt < DATE'9999-12-31'
dt < ts
dt > TIMESTAMP'2024-01-01 00:00:00'
ts = TIMESTAMP'2024-02-29 12:34:56.789012Z'
ts > '2024-01-01'
ts < TIMESTAMP'1969-12-31 23:59:59.999999Z'
ntz = TIMESTAMP_NTZ'2024-02-29 12:34:56.789012'
ntz > '2024-01-01'
CAST(ts AS DATE) = DATE'2024-01-01'
date(ts) >= '2024-01-01'
CAST(ntz AS DATE) < DATE'2024-01-01'
year(ts) = 2024
year(dt) = 2024
year(dt) > 2020
year(ntz) <= 2020
month(dt) = 3
date_trunc('DAY', ts) = TIMESTAMP'2024-01-01 00:00:00'
trunc(dt, 'MM') = DATE'2024-01-01'
hour(ts) = 3
CAST(i AS STRING) = '5'
CAST(i AS BIGINT) = 5
CAST(l AS INT) = 5
CAST(t AS DOUBLE) < 3
CAST(dec AS DECIMAL(20,4)) < 3.5
CAST(dec AS DECIMAL(5,1)) < 3.5
CAST(s AS INT) = 5
CAST(dt AS TIMESTAMP) > TIMESTAMP'2024-01-01 00:00:00'
CAST(f AS DOUBLE) > 0.1D
st.x = 1
st.`in`.y = 'q'
st.`in`.z > TIMESTAMP'2024-01-01 00:00:00Z'
st IS NULL
st.x IS NOT NULL
st = named_struct('x', 1, 'in', named_struct('y', 'a', 'z', TIMESTAMP'2024-01-01 00:00:00Z'))
arr[0] = 1
m['k'] = 1
array_contains(arr, 3)
size(arr) > 2
`odd name` = 1
ci = 'abc'
ci LIKE 'abc%'
i + 1 = 5
i % 2 = 0
abs(i) = 3
coalesce(i, 0) = 5
nullif(i, 3) = 5
CASE WHEN i = 1 THEN b ELSE false END
if(i = 1, b, l = 2)
rand() < 0.5
i = 1 AND rand() < 0.5
uuid() = s
ts < current_timestamp()
i IN (SELECT l FROM samples)
EXISTS (SELECT 1 FROM samples x WHERE x.l = samples.i)
i = (SELECT max(l) FROM samples)
i IS DISTINCT FROM 3
i IS NOT DISTINCT FROM 3
(i = 1) = true
(i = 1) IS NULL
(i = 1) = b
true
false
i = NULL
monotonically_increasing_id() < 5
input_file_name() = 'x'
s RLIKE 'abc.*'
contains(s, 'a')
endswith(s, 'a')
b = (i = 1)
INTERVAL '1' DAY + dt > DATE'2024-01-01'
ts > TIMESTAMP'2024-11-03 01:30:00'
ts = TIMESTAMP'2024-03-10 02:30:00'
""".strip().splitlines()
CONDITIONS.append("dt IN (" + ",".join(f"DATE'2024-01-{day:02}'" for day in range(1, 12)) + ")")

TIME_ZONE = "America/Los_Angeles"


def find_filter(plan):
    """The first filter above the scan, if the planner kept one."""
    while True:
        if plan.nodeName() == "Filter":
            return plan
        if plan.children().isEmpty():
            return None
        plan = plan.children().head()


def nodes_of(jvm, plan):
    """The nodes, without what differs from run to run or is long and never looked at."""
    nodes = json.loads(jvm.anabranch.ConditionJson.json(plan.condition()))
    for node in nodes:
        for name in ("exprId", "qualifier", "plan", "resultId"):
            if name in node:
                node[name] = None
    return nodes


def main() -> None:
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.session.timeZone", TIME_ZONE)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    load_extension(spark.sparkContext._gateway)
    samples = []
    with tempfile.TemporaryDirectory() as folder:
        spark.sql(f"CREATE TABLE samples ({SCHEMA}) USING parquet LOCATION '{folder}'")
        for condition in CONDITIONS:
            execution = spark.sql(f"SELECT * FROM samples WHERE {condition}")._jdf.queryExecution()
            analyzed, optimized = find_filter(execution.analyzed()), find_filter(execution.optimizedPlan())
            sample = {"sql": condition, "analyzed": nodes_of(spark._jvm, analyzed)}
            if optimized:
                sample["optimized"] = nodes_of(spark._jvm, optimized)
            samples.append(sample)
    spark.stop()
    out = Path(__file__).with_name(f"spark-{pyspark.__version__}.json")
    out.write_text(
        "\n".join(["[", ",\n".join(json.dumps(sample, separators=(",", ":")) for sample in samples), "]", ""])
    )


if __name__ == "__main__":
    main()
