"""The values that the clauses of a MERGE assign to columns, cast to the columns' types."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import DataType, NullType, StructField, StructType

from anabranch.commands.dml.assignments import Assignments, Value, assignments, check_of_one_row, default_of
from anabranch.commands.merge.merge_statement import InsertClause, MergeStatement, UpdateClause
from anabranch.errors.arguments import AssignmentError, IdentityAssignmentError
from anabranch.errors.dml import MergeColumnNotFoundError
from anabranch.protocol.actions import Metadata
from anabranch.protocol.properties import TableProperties
from anabranch.schema.casts import Casting, conversion
from anabranch.schema.enforcement import ColumnPlan, Fill, WritePlan, fill_of, plan_write
from anabranch.schema.paths import child, fold, quote
from anabranch.schema.write_rules import WriteApi, WriteRules, rules_for
from anabranch.spark.conditions.column_names import BoundAttributes
from anabranch.spark.conditions.user_condition import JoinScope, Scope
from anabranch.spark.write.conform import converted
from anabranch.spark.write.row_rules import default_value

Current = Callable[[str], Column]
"""The current value of a column of the table, by the name of the column."""
_DEFAULT = "default"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClauseValues:
    """The new row that a clause makes, by column."""

    columns: Callable[[Current], dict[str, Column]]
    """The values by name, in the columns' types. Generated columns are left out unless the clause sets them."""
    sets: frozenset[str]
    """The columns that the clause sets explicitly."""

    def outputs(self, current: Current, names: Sequence[str]) -> dict[str, Column]:
        """The values, and of the flags among `names`, which `set_flag` makes, those of the columns that are set."""
        flags = {set_flag(name) for name in self.sets}.intersection(names)
        return {**self.columns(current), **(dict.fromkeys(flags, F.lit(True)) if flags else {})}


def set_flag(name: str) -> str:
    """The name of the flag that is true in rows in which a clause has set this column."""
    return f"\0set {name}"


class ValuePlanner:
    """Resolves the values of clauses.

    `schema` is that of the table after the statement, `old_schema` the one with which it is read. With `evolves`, `*`
    leaves out columns that the source lacks, and structs of the source may lack fields.
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
        self._of_source = functools.cache(lambda name: scope.source[quote(name)])
        self.subquery_frames: list[DataFrame] = []
        """Frames that compute values with subqueries, which may read any table. Planning a clause adds its own."""

    def update(self, clause: UpdateClause, scope: Scope) -> ClauseValues:
        """The values of an update. Raises `AssignmentError`, `MergeColumnNotFoundError`, `IncompatibleTypesError`."""
        if clause.values is None:
            taken = self._taken("UPDATE")
            sets = frozenset(taken)
        else:
            setting = self._assigned(self._with_defaults(clause.values))
            sets = frozenset(field.name for field in self._schema if setting.sets(field.name))
        self._check_sets_no_identity(sets)

        def raw(current: Current) -> dict[str, Column]:
            values = {}
            for field in self.stored():
                if field.name not in sets:
                    if fill_of(field)[0] is not Fill.GENERATED:
                        values[field.name] = self._unchanged(field, current)
                elif clause.values is None:
                    values[field.name] = self._merged(field, taken[field.name], current)
                else:
                    values[field.name] = setting.value(field, self._unchanged(field, current))
            return values

        if clause.values is None and not self._evolves:
            # Columns of the source, whose types are known, and unchanged ones.
            kept = [
                field for field in self.stored() if field.name not in sets and fill_of(field)[0] is not Fill.GENERATED
            ]
            types = StructType([*_typed(taken), *kept])
        else:
            types = self._types(raw(lambda name: self._scope.target[quote(name)]), scope)
        plan = self._plan(types, self._rules(WriteApi.CHANGED_ROWS))
        return ClauseValues(columns=lambda current: self._converted(raw(current), types, plan), sets=sets)

    def insert(self, clause: InsertClause) -> ClauseValues:
        """The values of an insert. Raises as `update` does, and for columns that need a value and get none."""
        if clause.values is None:
            taken = self._taken("INSERT")
            values = {name: self._of_source(field.name) for name, field in taken.items()}
            types = StructType(_typed(taken))
        else:
            values = self._inserted(clause.values)
            types = self._types(values, Scope.SOURCE)
        # `rows_of_table` would allow values that a new row must not set, such as that of an identity column.
        plan = self._plan(types, dataclasses.replace(self._rules(WriteApi.CHANGED_ROWS), rows_of_table=False))

        def columns(_: Current) -> dict[str, Column]:
            filled = {
                column.target.name: self._filled(column) for column in plan.columns if column.source_index is None
            }
            defaults = {name: value for name, value in filled.items() if value is not None}
            return defaults | self._converted(values, types, plan)

        return ClauseValues(columns=columns, sets=frozenset(values))

    def plan_rows(self, data: StructType, metadata: Metadata, *, has_new_rows: bool) -> WritePlan:
        """How changed rows, and new rows if there are any, are written. Their columns have the table's types."""
        return plan_write(
            data,
            self._schema,
            self._rules(WriteApi.MERGED_ROWS if has_new_rows else WriteApi.CHANGED_ROWS),
            table=self._table,
            constraints=TableProperties(metadata.configuration).constraints,
            partition_columns=metadata.partition_columns,
        )

    def stored(self) -> list[StructField]:
        """The columns that are stored in files."""
        return [field for field in self._schema if not isinstance(field.dataType, NullType)]

    def _plan(self, data: StructType, rules: WriteRules) -> WritePlan:
        """How the values of a clause are converted, each without regard to the others."""
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
        """The columns of the source that `*` takes, by the table's columns."""
        taken = {}
        for field in self.stored():
            in_any_case = child(self._source.schema, field.name)
            column = child(self._source.schema, field.name, case_sensitive=self._case_sensitive)
            lacking = not self._evolves and fill_of(field)[0] not in (Fill.GENERATED, Fill.IDENTITY)
            if column is not None:
                taken[field.name] = column
            elif lacking or in_any_case is not None:
                # Schema evolution could not add the source's column, whose name differs by case alone.
                available = tuple(self._source.columns)
                raise MergeColumnNotFoundError(table=self._table, column=field.name, clause=clause, available=available)
        return taken

    def _assigned(self, values: Mapping[str, Value]) -> Assignments:
        at_one_time = {name: self._scope.with_fixed_clock(value) for name, value in values.items()}
        return assignments(
            at_one_time,
            self._schema,
            table=self._table,
            alias=self._statement.alias,
            case_sensitive=self._case_sensitive,
        )

    def _inserted(self, values: Mapping[str, Value]) -> dict[str, Column]:
        explicit = {name: value for name, value in values.items() if not self._is_default(value)}
        self._assigned(values)
        setting = self._assigned(explicit)
        for path in setting.values:
            if len(path) > 1:
                problem = "a new row needs whole columns; build the struct with named_struct"
                raise AssignmentError(table=self._table, column=".".join(path), problem=problem)
        return {
            name: F.expr(value) if isinstance(value, str) else value for (name, *_), value in setting.values.items()
        }

    def _with_defaults(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """The values with each `DEFAULT` replaced by the column's default."""
        whole = self._assigned({name: value for name, value in values.items() if self._is_default(value)})
        defaults = {path[0]: self._default(path[0]) for path in whole.values if len(path) == 1}
        explicit = {name: value for name, value in values.items() if not self._is_default(value)}
        return {**explicit, **{quote(name): value for name, value in defaults.items() if value is not None}}

    def _is_default(self, value: Value) -> bool:
        named = {fold(name) for name in (*self._schema.fieldNames(), *self._source.columns)}
        return isinstance(value, str) and fold(value.strip()) == _DEFAULT and _DEFAULT not in named

    def _default(self, name: str) -> Column | None:
        return default_of(self._schema[name], table=self._table)

    def _check_sets_no_identity(self, sets: frozenset[str]) -> None:
        for name in sets:
            if fill_of(self._schema[name])[0] is Fill.IDENTITY:
                raise IdentityAssignmentError(table=self._table, column=quote(name))

    def _unchanged(self, field: StructField, current: Current) -> Column:
        """The value that the row has, in the type that the column has after the statement."""
        old = child(self._old_schema, field.name, case_sensitive=True)
        if old is None:
            return F.lit(None).cast(field.dataType)
        plan = ColumnPlan(target=field, source_index=0, conversion=conversion(old.dataType, field.dataType))
        return converted(current(field.name), plan, old.dataType, casting=self._casting, table=self._table)

    def _merged(self, field: StructField, column: StructField, current: Current) -> Column:
        """The source's value; with schema evolution, fields of structs that it lacks are unchanged."""
        value = self._of_source(column.name)
        if not self._evolves:
            return value
        return _with_lacking_fields(value, column.dataType, self._unchanged(field, current), field.dataType)

    def _filled(self, plan: ColumnPlan) -> Column | None:
        """The value of a column that an insert does not set; None where it is computed from other columns."""
        if plan.fill is Fill.GENERATED:
            return None
        if plan.fill is Fill.DEFAULT:
            return default_value(plan, table=self._table)
        return F.lit(None).cast(plan.target.dataType)

    def _types(self, values: Mapping[str, Column], scope: Scope) -> StructType:
        """The types of the values by name, as Spark analyzes them. Nothing runs."""
        if not values:
            return StructType([])
        columns = [value.alias(f"v{index}") for index, value in enumerate(values.values())]
        if not isinstance(self._statement.alias, BoundAttributes):
            check_of_one_row(self._scope.frame(scope), values, table=self._table)
        frame = self._scope.frame(scope).select(*columns)
        if self._scope.has_subquery(frame, scope):
            self.subquery_frames.append(frame)
        fields = frame.schema.fields
        return StructType([StructField(name, field.dataType) for name, field in zip(values, fields, strict=True)])

    def _converted(self, values: Mapping[str, Column], types: StructType, plan: WritePlan) -> dict[str, Column]:
        plans = {column.target.name: column for column in plan.columns}
        return {
            name: converted(value, plans[name], types[name].dataType, casting=self._casting, table=self._table)
            for name, value in values.items()
        }


def _typed(taken: Mapping[str, StructField]) -> list[StructField]:
    """The columns of the table with the types of the columns of the source."""
    return [StructField(name, field.dataType) for name, field in taken.items()]


def _with_lacking_fields(value: Column, source: DataType, current: Column, target: DataType) -> Column:
    """`value`, of the type `source`, with the fields that it lacks taken from `current`, of the type `target`."""
    if not isinstance(source, StructType) or not isinstance(target, StructType) or not _lacks(source, target):
        return value
    fields = []
    for field in target.fields:
        counterpart = child(source, field.name)
        inner = current.getField(field.name)
        if counterpart is not None:
            new = value.getField(counterpart.name)
            inner = _with_lacking_fields(new, counterpart.dataType, inner, field.dataType)
        fields.append(inner.alias(field.name))
    return F.when(value.isNotNull() | current.isNotNull(), F.struct(*fields))


def _lacks(source: StructType, target: StructType) -> bool:
    """Whether `source` lacks a field of `target`, at any depth of structs."""
    pairs: Sequence[tuple[StructField | None, StructField]] = [(child(source, f.name), f) for f in target.fields]
    return any(
        counterpart is None
        or (
            isinstance(counterpart.dataType, StructType)
            and isinstance(field.dataType, StructType)
            and _lacks(counterpart.dataType, field.dataType)
        )
        for counterpart, field in pairs
    )


def output_name(index: int) -> str:
    """The name in a frame of the new value of a column, distinct from that of the old value."""
    return f"__anabranch_new_{index}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OutputColumns:
    """The columns with new values in a frame, from the clause that computes them to the file."""

    names: tuple[str, ...]
    """Their names in `ClauseValues.outputs`."""
    plain: tuple[StructField, ...]
    """The table's columns that are not generated; the generated ones are computed from these."""
    explicit: tuple[StructField, ...]
    """Generated columns that a clause sets all the same."""

    @classmethod
    def of(cls, planner: ValuePlanner, clauses: Iterable[ClauseValues]) -> OutputColumns:
        """The columns that these clauses compute."""
        sets = {name for clause in clauses for name in clause.sets}
        computed = {field.name for field in planner.stored() if fill_of(field)[0] is Fill.GENERATED}
        plain = tuple(field for field in planner.stored() if field.name not in computed)
        explicit = tuple(field for field in planner.stored() if field.name in computed & sets)
        names = [field.name for field in (*plain, *explicit)] + [set_flag(field.name) for field in explicit]
        return cls(names=tuple(names), plain=plain, explicit=explicit)

    @property
    def columns(self) -> tuple[str, ...]:
        """Their names in a frame."""
        return tuple(output_name(index) for index in range(len(self.names)))

    def at(self, name: str) -> str:
        """The name in a frame of the output `name`."""
        return output_name(self.names.index(name))
