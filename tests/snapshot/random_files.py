"""Random data files, the statistics a writer might give them, random conditions, and what each means for a row."""

from __future__ import annotations

import datetime
import decimal
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from pyspark.sql import types as T

from anabranch.predicates.expressions import (
    And,
    Column,
    Comparison,
    In,
    IsNotNull,
    IsNull,
    Literal,
    Not,
    Operator,
    Or,
    Predicate,
    StartsWith,
    Truth,
    Unknown,
)
from anabranch.protocol.actions import AddFile

Row = dict[str, Any]

SCHEMA = T.StructType(
    [
        T.StructField("i", T.IntegerType()),
        T.StructField("l", T.LongType()),
        T.StructField("l2", T.LongType()),
        T.StructField("f", T.FloatType()),
        T.StructField("d", T.DoubleType()),
        T.StructField("dec", T.DecimalType(10, 2)),
        T.StructField("big", T.DecimalType(38, 10)),
        T.StructField("s", T.StringType()),
        T.StructField("dt", T.DateType()),
        T.StructField("ts", T.TimestampType()),
        T.StructField("ntz", T.TimestampNTZType()),
        T.StructField("b", T.BooleanType()),
        T.StructField("bin", T.BinaryType()),
        T.StructField("st", T.StructType([T.StructField("x", T.LongType())])),
        T.StructField("p", T.LongType()),
        T.StructField("ps", T.StringType()),
        T.StructField("pd", T.DoubleType()),
        T.StructField("pt", T.TimestampType()),
    ]
)
PARTITION_COLUMNS = ("p", "ps", "pd", "pt")
PATHS = [(name,) for name in SCHEMA.names if name != "st"] + [("st", "x")]
DATA_PATHS = [path for path in PATHS if path[0] not in PARTITION_COLUMNS]

_letters = st.sampled_from(["a", "b", "é", "\U0001f600", "\uffff", " ", "\t", '"', "\\", "\n", "\x7f"])
texts = st.one_of(
    st.text(_letters, max_size=4),
    st.builds(
        lambda stem, tail: stem * 16 + tail,
        st.sampled_from(["ab", "é\U0001f600", "\U0010ffffa"]),
        st.text(_letters, max_size=3),
    ),
)
floats = st.one_of(
    st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1.1, -1.1, 16777217.0]), st.integers(-5, 5).map(float)
)
micros = st.one_of(st.integers(-3_000_000, 3_000_000), st.integers(-(10**15), 10**15))
VALUES: dict[type[T.DataType], st.SearchStrategy[Any]] = {
    T.IntegerType: st.integers(-5, 5),
    T.LongType: st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1)),
    T.FloatType: floats.map(lambda value: float(np.float32(value))),
    T.DoubleType: floats,
    T.StringType: texts,
    T.DateType: st.integers(-5, 5),
    T.TimestampType: micros,
    T.TimestampNTZType: micros,
    T.BooleanType: st.booleans(),
    T.BinaryType: st.binary(max_size=2),
}
_big = st.one_of(st.integers(-5, 5), st.integers(-(10**38) + 1, 10**38 - 1), st.integers(10**30, 10**30 + 3))


def type_of(path: tuple[str, ...]) -> T.DataType:
    field = SCHEMA[path[0]].dataType
    return field["x"].dataType if isinstance(field, T.StructType) else field


def values_of(data_type: T.DataType) -> st.SearchStrategy[Any]:
    if isinstance(data_type, T.DecimalType):
        digits = _big if data_type.precision == 38 else st.integers(-500, 500)
        return digits.map(lambda number: decimal.Decimal(number).scaleb(-data_type.scale, _WIDE))
    return VALUES[type(data_type)]


_WIDE = decimal.Context(prec=80)


@st.composite
def files(draw: st.DrawFn) -> tuple[AddFile, list[Row]]:
    """One file: its action and its rows."""
    rows: list[Row] = [{} for _ in range(draw(st.integers(1, 4)))]
    partition = {}
    for path in PATHS:
        name = ".".join(path)
        values = st.one_of(st.none(), values_of(type_of(path)))
        if name in PARTITION_COLUMNS:
            value = draw(values)
            partition[name] = partition_text(value, type_of(path))
            value = None if partition[name] in (None, "") else value
            for row in rows:
                row[name] = value
            continue
        flavour = draw(st.sampled_from(["mixed", "mixed", "null", "same"]))
        same = draw(values)
        for row in rows:
            row[name] = None if flavour == "null" else same if flavour == "same" else draw(values)
    add = AddFile(
        path="f",
        partition_values=partition,
        size=1,
        modification_time=0,
        data_change=True,
        stats=draw(statistics(rows)),
    )
    return add, rows


@st.composite
def statistics(draw: st.DrawFn, rows: list[Row]) -> str | None:
    """What a writer may say of the rows: with columns missing, bounds wide, cut, rounded, or of rows hidden since."""
    if draw(st.integers(0, 19)) == 0:
        return draw(st.sampled_from([None, "", "{}", "not json", '{"numRecords": "x"}', "[]", "{}{}"]))
    hidden = (
        [{".".join(path): draw(st.one_of(st.none(), values_of(type_of(path)))) for path in PATHS}]
        if draw(st.booleans())
        else []
    )
    everything = rows + hidden
    said: dict[str, Any] = {"numRecords": len(everything), "minValues": {}, "maxValues": {}, "nullCount": {}}
    if hidden:
        said["tightBounds"] = False
    for path in DATA_PATHS:
        if draw(st.integers(0, 5)) == 0:
            continue
        data_type = type_of(path)
        present = [row[".".join(path)] for row in everything if row[".".join(path)] is not None]
        _put(said["nullCount"], path, len(everything) - len(present))
        counted = present
        if isinstance(data_type, T.FloatType | T.DoubleType) and draw(st.booleans()):
            # As the Parquet libraries do.
            counted = [value for value in present if not math.isnan(value)]
        if not counted or isinstance(data_type, T.BooleanType | T.BinaryType):
            continue
        if draw(st.integers(0, 9)):
            _put(said["minValues"], path, draw(bound_text(min(counted, key=order), data_type, upper=False)))
        if draw(st.integers(0, 9)):
            upper = draw(bound_text(max(counted, key=order), data_type, upper=True))
            if upper is not None:
                _put(said["maxValues"], path, upper)
    text = json.dumps(said, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, None, None, 1])))
    return text.replace('"DECIMAL:', "").replace(':DECIMAL"', "")


def _put(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for part in path[:-1]:
        tree = tree.setdefault(part, {})
    tree[path[-1]] = value


@st.composite
def bound_text(draw: st.DrawFn, value: Any, data_type: T.DataType, *, upper: bool) -> Any:
    """A bound as the JSON of statistics says it."""
    if isinstance(data_type, T.StringType):
        if len(value) <= 32:
            return value
        # Some writers end a cut text with a mark that sorts last, some do not.
        return value[:32] + (draw(st.sampled_from(["", "\U0010ffff"])) if upper else "")
    if isinstance(data_type, T.DateType):
        return str(datetime.date(1970, 1, 1) + datetime.timedelta(days=value))
    if isinstance(data_type, T.TimestampType | T.TimestampNTZType):
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=value - value % 1000)
        text = moment.isoformat(timespec="milliseconds")
        if isinstance(data_type, T.TimestampNTZType):
            return text
        shifted = (moment + datetime.timedelta(hours=5, minutes=30)).isoformat(timespec="milliseconds")
        return draw(st.sampled_from([text + "Z", shifted + "+05:30"]))
    if isinstance(data_type, T.DecimalType):
        exact = f"{value:f}"
        through_double = repr(float(value))
        return f"DECIMAL:{draw(st.sampled_from([exact, through_double]))}:DECIMAL"
    if isinstance(value, float):
        if math.isnan(value) or math.isinf(value):
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
        return float(str(np.float32(value))) if isinstance(data_type, T.FloatType) else value
    return value


def partition_text(value: Any, data_type: T.DataType) -> str | None:
    if value is None:
        return None
    if isinstance(data_type, T.TimestampType):
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=value)
        return moment.isoformat(timespec="microseconds") + "Z"
    if isinstance(data_type, T.DoubleType) and not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    return str(value)


@st.composite
def leaves(draw: st.DrawFn) -> Predicate:
    path = draw(st.sampled_from(PATHS))
    column, data_type = Column(path), type_of(path)
    literals = st.one_of(
        st.builds(lambda value: Literal(value, data_type), values_of(data_type)), st.just(Literal(None, data_type))
    )
    kind = draw(st.sampled_from(["compare", "compare", "compare", "null", "in", "starts", "columns", "other"]))
    if kind == "null":
        return draw(st.sampled_from([IsNull(column), IsNotNull(column)]))
    if kind == "in":
        return In(column, tuple(draw(st.lists(literals, max_size=3))))
    if kind == "starts" and isinstance(data_type, T.StringType):
        return StartsWith(column, draw(texts))
    if kind == "columns":
        return Comparison(
            draw(st.sampled_from(list(Operator))),
            Column(("l",)),
            Column(draw(st.sampled_from([("l2",), ("st", "x"), ("p",)]))),
        )
    if kind == "other":
        return draw(st.sampled_from([Truth(True), Truth(False), Truth(None), Unknown("?")]))
    return Comparison(draw(st.sampled_from(list(Operator))), column, draw(literals))


predicates = st.recursive(
    leaves(),
    lambda below: st.one_of(
        st.builds(lambda parts: And(tuple(parts)), st.lists(below, min_size=1, max_size=3)),
        st.builds(lambda parts: Or(tuple(parts)), st.lists(below, min_size=1, max_size=3)),
        st.builds(Not, below),
    ),
    max_leaves=6,
)


def order(value: Any) -> Any:
    """Sorts values as Spark does."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode("utf-8") if isinstance(value, str) else value


_RELATIONS: dict[Operator, Callable[[Any, Any], bool]] = {
    Operator.EQ: lambda left, right: left == right,
    Operator.NE: lambda left, right: left != right,
    Operator.LT: lambda left, right: left < right,
    Operator.LE: lambda left, right: left <= right,
    Operator.GT: lambda left, right: left > right,
    Operator.GE: lambda left, right: left >= right,
}


def holds(predicate: Predicate, row: Row) -> bool | None:
    """What SQL says of one row, by the book. `Unknown` is taken for true here and for what it is elsewhere."""
    match predicate:
        case And(operands):
            results = [holds(operand, row) for operand in operands]
            return False if False in results else None if None in results else True
        case Or(operands):
            results = [holds(operand, row) for operand in operands]
            return True if True in results else None if None in results else False
        case Not(operand):
            result = holds(operand, row)
            return None if result is None else not result
        case Truth(value):
            return value
        case IsNull(column):
            return row[".".join(column.path)] is None
        case IsNotNull(column):
            return row[".".join(column.path)] is not None
        case StartsWith(column, prefix):
            value = row[".".join(column.path)]
            return None if value is None else value.startswith(prefix)
        case In(column, values):
            return (
                holds(Or(tuple(Comparison(Operator.EQ, column, value) for value in values)), row) if values else False
            )
        case Comparison(operator, left, right):
            one = row[".".join(left.path)]
            other = row[".".join(right.path)] if isinstance(right, Column) else right.value
            if operator is Operator.EQ_NULL_SAFE:
                return (one is None and other is None) or (
                    one is not None and other is not None and order(one) == order(other)
                )
            return None if one is None or other is None else _RELATIONS[operator](order(one), order(other))
        case _:
            raise AssertionError(predicate)


def without_unknown(predicate: Predicate, value: bool | None) -> Predicate:
    """The predicate with every part that was not understood having this result."""
    match predicate:
        case Unknown():
            return Truth(value)
        case And(operands) | Or(operands):
            return type(predicate)(tuple(without_unknown(operand, value) for operand in operands))
        case Not(operand):
            return Not(without_unknown(operand, value))
        case _:
            return predicate
