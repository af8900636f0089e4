"""Our table of casts is Spark's, pair by pair."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from pyspark.sql.types import DataType, DecimalType, NullType

from anabranch.schema.casts import Casting
from anabranch.schema.serialization import type_json
from schema.schema_samples import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    NTZ,
    SHORT,
    STRING,
    TIMESTAMP,
    VARIANT,
    VOID,
)

DECIMALS = [(1, 0), (3, 0), (5, 0), (9, 0), (10, 0), (16, 0), (20, 0), (38, 0), (5, 2), (7, 2), (12, 2), (22, 2)]
TYPES: list[DataType] = [
    *[BYTE, SHORT, INT, LONG, FLOAT, DOUBLE, STRING, BOOLEAN, BINARY, DATE, TIMESTAMP, NTZ, VARIANT, VOID],
    *[DecimalType(precision, scale) for precision, scale in DECIMALS],
]


@pytest.mark.spark
def test_every_pair_of_types_agrees_with_spark(spark: Any) -> None:
    jvm = spark._jvm.org.apache.spark.sql
    cast = getattr(getattr(jvm.catalyst.expressions, "Cast$"), "MODULE$")
    from_json = getattr(getattr(jvm.types, "DataType$"), "MODULE$").fromJson
    both = [(kind, from_json(json.dumps(type_json(kind)))) for kind in TYPES]
    different = []
    for (source, theirs), (target, to) in itertools.product(both, repeat=2):
        if isinstance(target, NullType):
            continue
        spark_says = cast.canUpCast(theirs, to), cast.canAnsiCast(theirs, to), cast.canCast(theirs, to)
        we_say = tuple(policy.allows(source, target) for policy in (Casting.STRICT, Casting.ANSI, Casting.LEGACY))
        if spark_says != we_say:
            different.append((source.simpleString(), target.simpleString(), spark_says, we_say))
    assert different == []
