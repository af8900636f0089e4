"""The values that the clauses of a MERGE give to columns, as the table takes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import DataType, NullType, StructField, StructType

from anabranch.commands.dml.assignments import Assignments, Value, assignments, check_of_one_row, default_of
from anabranch.commands.merge.merge_source import InsertClause, MergeStatement, UpdateClause
from anabranch.errors.arguments import AssignmentError, IdentityAssignmentError
from anabranch.errors.dml import MergeColumnNotFoundError
from anabranch.protocol.actions import Metadata
from anabranch.protocol.properties import TableProperties
from anabranch.schema.casts import Casting
from anabranch.schema.conversions import conversion
from anabranch.schema.enforcement import (
    ColumnPlan,
    Fill,
    WriteApi,
    WritePlan,
    WriteRules,
    fill_of,
    plan_write,
    rules_for,
)
from anabranch.schema.paths import child, fold
from anabranch.spark.conditions.column_names import BoundAttributes
from anabranch.spark.conditions.join_conditions import JoinScope, Scope
from anabranch.spark.session.table_identifiers import quote
from anabranch.spark.write.conform import converted
from anabranch.spark.write.row_rules import default_value

Current = Callable[[str], Column]
"""The value that a column of the table has in the row."""
_DEFAULT = "default"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClauseValues:
    """The new row that a clause makes, column by column."""

    columns: Callable[[Current], dict[str, Column]]
    """By name, in the columns' types. Generated columns are left out unless the clause sets them."""
    sets: frozenset[str]
    """The columns that the clause sets itself."""

    def outputs(self, current: Current) -> dict[str, Column]:
        """The columns, and for each generated one that is set a mark, called `mark_of` it."""
        found = self.columns(current)
        return {**found, **{mark_of(name): F.lit(True) for name in self.sets}}


def mark_of(name: str) -> str:
    """What the mark is called that says of a row that a clause set this column in it."""
    return f"\0set {name}"


class ValuePlanner:
    """Makes out what clauses set, in a table of one schema.

    `schema` is the table's after the statement, `old_schema` the one it was read with. `evolves` lets `*` leave out
    columns that the source lacks, and structs lack fields.
    """

    def __init__(
        self,
        statement: MergeStatement,
        scope: JoinScope,
        *,
        schema: StructType,
        old_schema: StructType,
        evolves: bool,
        casting: Casting,
        case_sensitive: bool,
        table: str,
    ) -> None:
        self._statement = statement
        self._scope = scope
        self._source = scope.source
        self._schema = schema
        self._old_schema = old_schema
        self._evolves = evolves
        self._casting = casting
        self._case_sensitive = case_sensitive
        self._table = table
        self.asking: list[DataFrame] = []
        """Frames that compute values with a subquery in them, which may read anything; complete when all is planned."""

    def update(self, clause: UpdateClause, scope: Scope) -> ClauseValues:
        """What the clause sets. Raises `AssignmentError`, `MergeColumnNotFoundError`, `IncompatibleTypesError`."""
        if clause.values is None:
            taken = self._taken("UPDATE")
            sets = frozenset(taken)
        else:
            setting = self._assigned(self._with_defaults(clause.values))
            sets = frozenset(field.name for field in self._schema if setting.sets(field.name))
        self._check_not_numbered(sets)

        def raw(current: Current) -> dict[str, Column]:
            found = {}
            for field in self.stored():
                if field.name not in sets:
                    if fill_of(field)[0] is not Fill.GENERATED:
                        found[field.name] = self._kept(field, current)
                elif clause.values is None:
                    found[field.name] = self._merged(field, taken[field.name], current)
                else:
                    found[field.name] = setting.value(field, self._kept(field, current))
            return found

        types = self._types(raw(lambda name: self._scope.target[quote(name)]), scope)
        plan = self._plan(types, self._rules(WriteApi.CHANGED_ROWS))
        return ClauseValues(columns=lambda current: self._converted(raw(current), types, plan), sets=sets)

    def insert(self, clause: InsertClause) -> ClauseValues:
        """What the clause sets. Raises as `update` does, and for columns that must be given and are not."""
        if clause.values is None:
            given = {name: self._source[quote(field.name)] for name, field in self._taken("INSERT").items()}
        else:
            given = self._inserted(clause.values)
        types = self._types(given, Scope.SOURCE)
        # What may not be given in a new row, such as the number of an identity column, may stand in an old one.
        plan = self._plan(types, dataclasses.replace(self._rules(WriteApi.CHANGED_ROWS), rows_of_table=False))

        def columns(_: Current) -> dict[str, Column]:
            filled = {each.target.name: self._filled(each) for each in plan.columns if each.source is None}
            found = {name: value for name, value in filled.items() if value is not None}
            return found | self._converted(given, types, plan)

        return ClauseValues(columns=columns, sets=frozenset(given))

    def plan_rows(self, data: StructType, metadata: Metadata, *, has_new_rows: bool) -> WritePlan:
        """How changed rows, with new ones among them, go into files. Their columns have the table's types."""
        return plan_write(
            data,
            self._schema,
            self._rules(WriteApi.MERGED_ROWS if has_new_rows else WriteApi.CHANGED_ROWS),
            table=self._table,
            constraints=TableProperties(metadata.configuration).constraints,
            partition_columns=metadata.partition_columns,
        )

    def stored(self) -> list[StructField]:
        """The columns that files hold."""
        return [field for field in self._schema if not isinstance(field.dataType, NullType)]

    def _plan(self, data: StructType, rules: WriteRules) -> WritePlan:
        """How the values of a clause become the table's, each by itself."""
        return plan_write(data, self._schema, rules, table=self._table, constraints={})

    def _rules(self, api: WriteApi) -> WriteRules:
        return rules_for(
            api,
            overwriting=False,
            merge_schema=False,
            overwrite_schema=False,
            policy=self._casting,
            fills_fields=self._evolves,
        )

    def _taken(self, clause: str) -> dict[str, StructField]:
        """The source's column for each column of the table."""
        found = {}
        for field in self.stored():
            in_any_case = child(self._source.schema, field.name)
            given = child(self._source.schema, field.name, case_sensitive=self._case_sensitive)
            lacking = not self._evolves and fill_of(field)[0] not in (Fill.GENERATED, Fill.IDENTITY)
            if given is not None:
                found[field.name] = given
            elif lacking or in_any_case is not None:
                # Schema evolution could not add the source's column, whose name differs by case alone.
                available = tuple(self._source.columns)
                raise MergeColumnNotFoundError(table=self._table, column=field.name, clause=clause, available=available)
        return found

    def _assigned(self, values: Mapping[str, Value]) -> Assignments:
        steady = {name: self._scope.with_fixed_clock(value) for name, value in values.items()}
        return assignments(
            steady,
            self._schema,
            table=self._table,
            alias=self._statement.alias,
            case_sensitive=self._case_sensitive,
        )

    def _inserted(self, values: Mapping[str, Value]) -> dict[str, Column]:
        given = {name: value for name, value in values.items() if not self._is_default(value)}
        self._assigned(values)
        setting = self._assigned(given)
        for path in setting.values:
            if len(path) > 1:
                problem = "a new row is given whole columns; build the struct with named_struct"
                raise AssignmentError(table=self._table, column=".".join(path), problem=problem)
        return {
            name: F.expr(value) if isinstance(value, str) else value for (name, *_), value in setting.values.items()
        }

    def _with_defaults(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """`DEFAULT` made the column's own default."""
        whole = self._assigned({name: value for name, value in values.items() if self._is_default(value)})
        defaults = {path[0]: self._default(path[0]) for path in whole.values if len(path) == 1}
        kept = {name: value for name, value in values.items() if not self._is_default(value)}
        return {**kept, **{quote(name): value for name, value in defaults.items() if value is not None}}

    def _is_default(self, value: Value) -> bool:
        named = {fold(name) for name in (*self._schema.fieldNames(), *self._source.columns)}
        return isinstance(value, str) and fold(value.strip()) == _DEFAULT and _DEFAULT not in named

    def _default(self, name: str) -> Column | None:
        return default_of(self._schema[name], table=self._table)

    def _check_not_numbered(self, sets: frozenset[str]) -> None:
        for name in sets:
            if fill_of(self._schema[name])[0] is Fill.IDENTITY:
                raise IdentityAssignmentError(table=self._table, column=quote(name))

    def _kept(self, field: StructField, current: Current) -> Column:
        """The value that the row had, in the type that the column has now."""
        old = child(self._old_schema, field.name, case_sensitive=True)
        if old is None:
            return F.lit(None).cast(field.dataType)
        plan = ColumnPlan(
            target=field, source=old.name, source_index=0, conversion=conversion(old.dataType, field.dataType)
        )
        return converted(current(field.name), plan, old.dataType, casting=self._casting, table=self._table)

    def _merged(self, field: StructField, given: StructField, current: Current) -> Column:
        """The source's value; fields of structs that it lacks stay as they were, where the schema evolves."""
        value = self._source[quote(given.name)]
        if not self._evolves:
            return value
        return _over(value, given.dataType, self._kept(field, current), field.dataType)

    def _filled(self, plan: ColumnPlan) -> Column | None:
        if plan.fill is Fill.GENERATED:
            return None
        if plan.fill is Fill.DEFAULT:
            return default_value(plan, table=self._table)
        return F.lit(None).cast(plan.target.dataType)

    def _types(self, values: Mapping[str, Column], scope: Scope) -> StructType:
        """What the values are, as Spark finds without running anything."""
        if not values:
            return StructType([])
        named = [value.alias(f"v{place}") for place, value in enumerate(values.values())]
        if not isinstance(self._statement.alias, BoundAttributes):
            check_of_one_row(self._scope.frame(scope), values, table=self._table)
        frame = self._scope.frame(scope).select(*named)
        if self._scope.has_subquery(frame, scope):
            self.asking.append(frame)
        found = frame.schema
        return StructType([StructField(name, field.dataType) for name, field in zip(values, found.fields, strict=True)])

    def _converted(self, values: Mapping[str, Column], types: StructType, plan: WritePlan) -> dict[str, Column]:
        plans = {each.target.name: each for each in plan.columns}
        return {
            name: converted(value, plans[name], types[name].dataType, casting=self._casting, table=self._table)
            for name, value in values.items()
        }


def _over(value: Column, given: DataType, current: Column, kept: DataType) -> Column:
    """`value` with the fields of `current` that it lacks."""
    if not isinstance(given, StructType) or not isinstance(kept, StructType) or not _lacks(given, kept):
        return value
    fields = []
    for field in kept.fields:
        of = child(given, field.name)
        before = current.getField(field.name)
        inner = before if of is None else _over(value.getField(of.name), of.dataType, before, field.dataType)
        fields.append(inner.alias(field.name))
    return F.when(value.isNotNull() | current.isNotNull(), F.struct(*fields))


def _lacks(given: StructType, kept: StructType) -> bool:
    pairs: Sequence[tuple[StructField | None, StructField]] = [(child(given, f.name), f) for f in kept.fields]
    return any(
        of is None
        or (
            isinstance(of.dataType, StructType)
            and isinstance(f.dataType, StructType)
            and _lacks(of.dataType, f.dataType)
        )
        for of, f in pairs
    )
