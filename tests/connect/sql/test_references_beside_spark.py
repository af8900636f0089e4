"""The tables that we find in the text of a query are those that Spark's own parser finds."""

from __future__ import annotations

import random
import re
from collections import Counter
from typing import Any

import pytest
from pyspark.errors import ParseException
from pyspark.sql import SparkSession

from anabranch.connect.sql.table_references import table_references

pytestmark = pytest.mark.spark

QUERIES = 300
_RELATION = re.compile(r"'UnresolvedRelation \[(.*?)\], \[")
TABLES = ("t", "u", "s.t", "delta.`/a b/c`", "`from`", "`a``b`.v", "cat.s.t", "values_of", "joined", "`union`")
COLUMNS = ("a", "b", "x.a", "`from`", "`join u`", "a.b.c")
STRINGS = ("'FROM v'", "'it''s, u'", '"JOIN w"', "r'\\\\FROM'", "'a' 'FROM b'")
COMMENTS = ("", "", "", " /* FROM w */ ", " -- JOIN w\n", " /* a /* FROM */ JOIN w */ ")
FUNCTIONS = (
    "extract(YEAR FROM {0})",
    "trim(BOTH 'x' FROM {0})",
    "substring({0} FROM 2 FOR 3)",
    "overlay({0} PLACING 'x' FROM 2)",
)
JOINS = (
    "JOIN",
    "LEFT OUTER JOIN",
    "CROSS JOIN",
    "FULL JOIN",
    "LEFT SEMI JOIN",
    "LEFT ANTI JOIN",
    "NATURAL JOIN",
    "INNER JOIN",
)


class Queries:
    """Random ones, of all that may stand around the name of a table."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.named: list[str] = []
        """Queries that WITH gives a name; no table has such a name."""

    def query(self, depth: int) -> str:
        kind = self.rng.randrange(12)
        if depth <= 0 or kind < 6:
            return self.select(depth)
        if kind == 6:
            return f"{self.select(depth - 1)} {self.rng.choice(['UNION ALL', 'EXCEPT', 'INTERSECT', 'UNION'])} {self.select(depth - 1)}"
        if kind == 7:
            return f"TABLE {self.table()}"
        if kind == 8:
            return f"FROM {self.relation(depth - 1)} SELECT {self.value(depth - 1)}"
        if kind == 9:
            return f"({self.query(depth - 1)})"
        if kind == 10:
            return "VALUES (1, 'FROM t'), (2, 'JOIN u')"
        name = f"q{len(self.named)}"
        self.named.append(name)
        body = self.query(depth - 1)
        return f"WITH {name} AS ({body}) SELECT * FROM {name}, {self.relation(depth - 1)}"

    def select(self, depth: int) -> str:
        parts = [
            f"SELECT {self.comment()}{self.value(depth)}, {self.value(depth)} AS c{self.comment()} FROM {self.relations(depth)}"
        ]
        if self.rng.random() < 0.3:
            parts.append(f"LATERAL VIEW explode({self.rng.choice(COLUMNS)}) e AS f, g")
        if self.rng.random() < 0.5:
            parts.append(f"WHERE {self.condition(depth)}")
        if self.rng.random() < 0.2:
            parts.append(f"GROUP BY {self.rng.choice(COLUMNS)} HAVING {self.condition(depth)}")
        if self.rng.random() < 0.2:
            parts.append("ORDER BY a, b LIMIT 3")
        return " ".join(parts)

    def relations(self, depth: int) -> str:
        return f",{self.comment()} ".join(self.joined(depth) for _ in range(self.rng.choice([1, 1, 1, 2, 3])))

    def joined(self, depth: int) -> str:
        text = self.relation(depth)
        for _ in range(self.rng.choice([0, 0, 1, 2])):
            join = self.rng.choice(JOINS)
            on = (
                ""
                if join.startswith(("CROSS", "NATURAL"))
                else self.rng.choice([" USING (a, b)", f" ON {self.condition(depth - 1)}"])
            )
            text += f" {join}{self.comment()} {self.relation(depth)}{on}"
        return text

    def relation(self, depth: int) -> str:
        kind = self.rng.randrange(10)
        alias = self.rng.choice(["", "", " AS y", " z", " AS y(f, g)"])
        if depth > 0 and kind == 0:
            return f"({self.query(depth - 1)}) AS y"
        if depth > 0 and kind == 1:
            return f"({self.joined(depth - 1)})"
        if kind == 2:
            return f"range(10){alias}"
        if kind == 3:
            return "VALUES (1), (2) AS w(a)"
        if depth > 0 and kind == 4:
            return f"LATERAL ({self.select(depth - 1)}) AS y"
        sample = self.rng.choice(["", "", "", " TABLESAMPLE (10 PERCENT)"])
        return f"{self.table()}{sample}{alias}"

    def condition(self, depth: int) -> str:
        kind = self.rng.randrange(7)
        left = self.rng.choice(COLUMNS)
        if depth > 0 and kind == 0:
            return f"{left} IN ({self.select(depth - 1)})"
        if depth > 0 and kind == 1:
            return f"NOT EXISTS ({self.select(depth - 1)})"
        if kind == 2:
            return f"{left} IS DISTINCT FROM {self.rng.choice(COLUMNS)}"
        if kind == 3:
            return f"{left} IN (1, 2) AND {self.rng.choice(COLUMNS)} LIKE {self.rng.choice(STRINGS[:3])}"
        return f"{left} = {self.value(depth - 1)}"

    def value(self, depth: int) -> str:
        kind = self.rng.randrange(6)
        if depth > 0 and kind == 0:
            return f"({self.select(depth - 1)})"
        if kind == 1:
            return self.rng.choice(FUNCTIONS).format(self.rng.choice(COLUMNS))
        if kind == 2:
            return self.rng.choice(STRINGS)
        if kind == 3:
            return f"CASE WHEN {self.condition(depth - 1)} THEN 1 ELSE {self.rng.choice(COLUMNS)} END"
        return self.rng.choice(COLUMNS)

    def table(self) -> str:
        return self.rng.choice(TABLES)

    def comment(self) -> str:
        return self.rng.choice(COMMENTS)


def test_the_same_tables_as_sparks_parser(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    parser = jvm.org.apache.spark.sql.execution.SparkSqlParser()
    tables = parsed = 0
    for seed in range(QUERIES):
        queries = Queries(seed)
        text = queries.query(3)
        try:
            told = str(parser.parsePlan(text).treeString())
        except ParseException:
            continue
        parsed += 1
        theirs = Counter(name for name in _RELATION.findall(told) if name not in queries.named)
        ours = Counter(", ".join(reference.parts) for reference in table_references(text))
        assert ours == theirs, f"seed {seed}: {text}"
        tables += ours.total()
    assert parsed > QUERIES * 3 // 4
    assert tables > QUERIES
