"""Trees are values: they compare, hash, print and rename."""

from __future__ import annotations

from pyspark.sql.types import IntegerType, StringType

from anabranch.predicates.expressions import (
    EQ,
    FALSE,
    GT,
    TRUE,
    And,
    Column,
    Comparison,
    In,
    IsNotNull,
    IsNull,
    Literal,
    Not,
    Or,
    StartsWith,
    Unknown,
    conjunction,
    disjunction,
    is_opaque,
    normalise,
    references,
    with_physical_columns,
)

A, B = Column(("a",)), Column(("s", "b"))
ONE = Literal(1, IntegerType())


def test_equal_trees_are_one_key() -> None:
    assert len({And((IsNull(A), Comparison(EQ, B, ONE))), And((IsNull(A), Comparison(EQ, B, ONE)))}) == 1


def test_joining_flattens_and_drops_what_changes_nothing() -> None:
    assert conjunction([]) == TRUE
    assert disjunction([]) == FALSE
    assert conjunction([TRUE, IsNull(A)]) == IsNull(A)
    assert conjunction([And((IsNull(A), IsNull(B))), IsNotNull(A)]) == And((IsNull(A), IsNull(B), IsNotNull(A)))
    assert normalise(And((IsNull(A), FALSE))) == FALSE
    assert normalise(Or((IsNull(A), Not(FALSE)))) == TRUE


def test_references_are_those_of_every_part() -> None:
    predicate = Or((Not(Comparison(GT, A, B)), Unknown("f(c)", (Column(("c",)),), opaque=True)))
    assert references(predicate) == {("a",), ("s", "b"), ("c",)}
    assert is_opaque(predicate)


def test_text_cannot_be_broken_by_values() -> None:
    predicate = Comparison(EQ, Column(("a`b", "c")), Literal("x'\n--", StringType()))
    assert str(predicate) == r"`a``b`.c = 'x\'\n--'"


def test_physical_names() -> None:
    paths = {("a",): ("col-1",), ("s",): ("col-2",), ("s", "b"): ("col-2", "col-3")}
    predicate = And(
        (
            Comparison(EQ, B, ONE),
            Not(In(A, (ONE,))),
            StartsWith(A, "x"),
            IsNull(Column(("gone",))),
            Unknown("?", (A, Column(("gone",)))),
        )
    )
    assert with_physical_columns(predicate, paths) == And(
        (
            Comparison(EQ, Column(("col-2", "col-3")), ONE),
            Not(In(Column(("col-1",)), (ONE,))),
            StartsWith(Column(("col-1",)), "x"),
            Unknown("gone IS NULL"),
            Unknown("?", (Column(("col-1",)),)),
        )
    )
